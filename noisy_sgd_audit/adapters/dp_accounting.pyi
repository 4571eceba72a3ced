from audit.adapters.dp_accounting import *
