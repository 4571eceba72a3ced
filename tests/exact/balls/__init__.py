"""Laws of pairs in ball arithmetic, for references of brackets."""
