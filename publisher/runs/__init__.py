"""One run from request to acknowledgement: replay, publish, follow, migrate, recover."""
