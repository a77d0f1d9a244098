"""Which pictures and classes a folder or tar holds: the rules that packer and folder reader share."""
