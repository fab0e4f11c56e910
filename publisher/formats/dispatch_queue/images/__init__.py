"""Row images of the DISPATCH_QUEUE: their layout and decoding."""
