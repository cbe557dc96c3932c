//! Stateful stream processing on Apache Kafka, centred on its state stores.
