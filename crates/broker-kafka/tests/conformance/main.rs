//! The case list of the log seam on real Kafka: over plaintext, and over TLS with SCRAM.

mod environment;

use std::process::ExitCode;

use environment::Real;
use millpond_broker_api::conformance::CASES;
use millpond_broker_kafka::KafkaSettings;
use millpond_kafka_dev::harness::{Needs, Test, run};
use millpond_kafka_dev::{ADMIN, TestKafka};

fn main() -> ExitCode {
    let plain = CASES.iter().map(|case| {
        let body = || case.run(&mut Real::new(KafkaSettings::new(TestKafka::required().bootstrap())));
        Test::new(format!("plaintext::{}", case.name), Needs::Broker, body)
    });
    let secure = CASES.iter().map(|case| {
        let body = || case.run(&mut Real::new(secure_settings()));
        Test::new(format!("sasl_ssl::{}", case.name), Needs::SecureBroker, body)
    });
    run(plain.chain(secure).collect())
}

/// TLS with the test's own authority, and SCRAM.
fn secure_settings() -> KafkaSettings {
    let kafka = TestKafka::required();
    let secure = kafka.secure().expect("the test asks for it");
    let mut settings = KafkaSettings::new(&secure.address);
    let ca = secure.ca.display().to_string();
    for (key, value) in [
        ("security.protocol", "SASL_SSL"),
        ("ssl.ca.location", &ca),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("sasl.username", ADMIN.name),
        ("sasl.password", ADMIN.password),
    ] {
        settings.set(key, value).expect("a setting");
    }
    settings
}
