"""Fitting the proposal: a record becomes coefficients, coefficients become one weighted likelihood step."""
