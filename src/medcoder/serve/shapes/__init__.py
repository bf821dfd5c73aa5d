"""Requests and replies of the service, as its description has them, with their limits."""
