"""What `trainload demo` shows: small data of its own or the user's, packed, trained on, measured."""
