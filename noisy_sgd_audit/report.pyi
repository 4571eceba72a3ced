from audit.report import *
