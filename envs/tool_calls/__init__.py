"""Tool Calls: make the calls that a request asks for."""
