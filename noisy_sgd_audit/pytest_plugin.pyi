from audit.pytest_plugin import *
