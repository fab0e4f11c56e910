"""Publishes a journal to Kafka topics, exactly once where the sink is transactional."""
