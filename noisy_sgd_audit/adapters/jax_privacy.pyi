from audit.adapters.jax_privacy import *
