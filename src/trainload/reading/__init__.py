"""From files to samples, frames and windows; checks of whole files."""
