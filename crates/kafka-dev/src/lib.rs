//! Real Kafka brokers for tests and benches: fetched from Maven Central, started, killed, stopped.
