"""Row images of the DISPATCH_QUEUE: their layout, decoding, and advice on settings."""
