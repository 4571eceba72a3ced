from audit.search import *
