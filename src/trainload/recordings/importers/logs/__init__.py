"""Logs of messages: what MCAP and bags share, and one folder for each."""
