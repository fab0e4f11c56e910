"""The Kafka sink: publishes ledger to topics, exactly once with transactions."""
