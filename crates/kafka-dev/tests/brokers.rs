//! Brokers as tests get them: a shared one that answers, and one of their own that is killed and comes back.

#![expect(clippy::unwrap_used, reason = "a test fails by its panic; clippy knows only those with the attribute")]

use std::net::TcpStream;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use millpond_kafka_dev::harness::{Needs, Test, run};
use millpond_kafka_dev::{Kafka, KafkaOptions, TestKafka, wait_until_ready};

fn main() -> ExitCode {
    run(vec![
        Test::new("the_shared_broker_answers", Needs::Broker, the_shared_broker_answers),
        Test::new("the_secure_listener_is_open", Needs::SecureBroker, the_secure_listener_is_open),
        Test::new("an_own_broker_dies_and_comes_back", Needs::OwnBroker, an_own_broker_dies_and_comes_back),
    ])
}

/// Less than any of these takes when something is wrong, more than a busy machine needs.
const PATIENCE: Duration = Duration::from_secs(30);

fn the_shared_broker_answers() {
    wait_until_ready(TestKafka::required().bootstrap(), PATIENCE).unwrap();
}

fn the_secure_listener_is_open() {
    let kafka = TestKafka::required();
    let secure = kafka.secure().unwrap();
    TcpStream::connect(&secure.address).unwrap();
    let pem = |path| std::fs::read_to_string(path).unwrap();
    let (trusted, untrusted) = (pem(&secure.ca), pem(&secure.untrusted_ca));
    assert!(trusted.contains("BEGIN CERTIFICATE") && untrusted.contains("BEGIN CERTIFICATE"));
    assert_ne!(trusted, untrusted);
}

fn an_own_broker_dies_and_comes_back() {
    let mut kafka = Kafka::up(&KafkaOptions::default()).unwrap();
    let address = kafka.bootstrap().to_owned();
    let data = kafka.log().parent().unwrap().to_owned();
    let answers = || wait_until_ready(&address, PATIENCE).unwrap();
    let is_silent = || wait_until_ready(&address, Duration::from_millis(500)).is_err();
    answers();

    let first = kafka.pid();
    kafka.kill().unwrap();
    assert!(kafka.pid().is_none() && is_silent());
    kafka.start().unwrap();
    assert_ne!(kafka.pid(), first);
    answers();
    kafka.start().unwrap_err();

    kafka.pause().unwrap();
    TcpStream::connect(&address).expect("a frozen broker's port is still open");
    assert!(is_silent());
    kafka.resume().unwrap();
    answers();

    kafka.stop().unwrap();
    assert!(is_silent() && data.exists());
    kafka.start().unwrap();
    answers();
    let process = kafka.pid().unwrap();
    drop(kafka);
    assert!(!lives(process) && !data.exists());
}

fn lives(process: u32) -> bool {
    let mut shell = Command::new("sh");
    shell.args(["-c", "kill -0 $0", &process.to_string()]).stderr(Stdio::null());
    shell.status().unwrap().success()
}
