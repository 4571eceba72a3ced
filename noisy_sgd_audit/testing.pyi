from audit.testing import *
