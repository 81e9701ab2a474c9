"""The answer that a user holds: a posterior over policies, its samples, and how it is saved."""
