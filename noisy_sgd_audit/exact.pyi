from audit.exact import *
