"""The Kafka sink: publishes journals to topics, exactly once with transactions."""
