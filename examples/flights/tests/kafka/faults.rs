//! What can be wrong with a cluster or the way to it: an error that names it and the remedy.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use millpond::broker::{
    Broker, Change, ErrorKind, Isolation, KafkaBroker, KafkaSettings, Outgoing, ProducerOptions, Sent, Source,
};
use millpond_kafka_dev::{ADMIN, Jars, LIMITED};

use crate::outputs::assert_exact;
use crate::world::{CHANGELOG, GIVEN, World, refused, wait_for};

/// How long our own connections try again here.
const PATIENCE: &str = "admin.default.api.timeout.ms=3000";

/// `show` at an address, with settings; refused, with all of these words.
#[track_caller]
fn show_is_refused(address: &str, settings: &[&str], words: &[&str]) {
    let mut arguments = vec!["show", "--broker", address, "--set", PATIENCE];
    settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
    let start = Instant::now();
    let (code, said) = refused(&arguments);
    assert_eq!(code, Some(1), "{said}");
    for word in words {
        assert!(said.contains(word), "`{word}` is not in: {said}");
    }
    eprintln!("refused after {:?}: {said}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}: {said}", start.elapsed());
}

/// A port at which nothing listens, for a moment at least.
fn closed_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

pub(crate) fn no_broker_at_start() {
    let address = closed_port();
    show_is_refused(&address, &[], &[&address, "refused", "remedy"]);
    let state = tempfile::tempdir().unwrap();
    let state = state.path().to_str().unwrap().to_owned();
    let run = ["run", "--broker", &address, "--set", PATIENCE, "--engine", "rocks", "--state-dir", &state];
    let (code, said) = refused(&run);
    assert!(code == Some(1) && said.contains(&address), "{said}");
}

pub(crate) fn something_else_answers() {
    // A web server, for instance.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        }
    });
    show_is_refused(&address, &[], &[&address, "not a Kafka broker"]);
    // The right broker, spoken to in the wrong way: without TLS where it is expected, and the other way round.
    let world = World::new();
    show_is_refused(&world.kafka.secure().address, &[], &["security.protocol"]);
    show_is_refused(world.kafka.bootstrap(), &["security.protocol=SSL"], &["security.protocol"]);
}

/// The settings of the secure listener for a user.
fn secure(world: &World, user: &str, password: &str) -> Vec<String> {
    vec![
        "security.protocol=SASL_SSL".to_owned(),
        format!("ssl.ca.location={}", world.kafka.secure().ca.display()),
        "sasl.mechanism=SCRAM-SHA-512".to_owned(),
        format!("sasl.username={user}"),
        format!("sasl.password={password}"),
    ]
}

#[track_caller]
fn secure_show_is_refused(world: &World, settings: &[String], words: &[&str]) {
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    show_is_refused(&world.kafka.secure().address, &settings, words);
}

pub(crate) fn wrong_credentials() {
    let world = World::new();
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
        let mut settings = secure(&world, ADMIN.name, "wrong");
        settings.push(format!("sasl.mechanism={mechanism}"));
        secure_show_is_refused(&world, &settings, &["SASL_AUTHENTICATION_FAILED", "sasl.username"]);
    }
    data_clients_do_not_wait_for_ever(&world);
}

/// A password may be changed while an application runs: clients that connect anew end with an error, too.
fn data_clients_do_not_wait_for_ever(world: &World) {
    let settings = secure(world, ADMIN.name, "wrong");
    let mut pairs: Vec<_> = settings.iter().filter_map(|setting| setting.split_once('=')).collect();
    pairs.push(("bootstrap.servers", &world.kafka.secure().address));
    let pairs: Vec<_> = pairs.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    let broker = KafkaBroker::new(KafkaSettings::from_pairs(&pairs).unwrap());

    let mut consumer = broker.consumer(&Isolation::ReadCommitted.into()).unwrap();
    consumer.assign(&[Change::Add { source: Source(0), topic: "flights", partition: 0, from: 0 }]).unwrap();
    let reading = wait_for("the consumer's error", || consumer.poll(Duration::from_millis(100)).err());

    let mut producer = broker.producer(&ProducerOptions::transactional("flights-of-nobody")).unwrap();
    let taking = producer.init(Duration::from_secs(60)).unwrap_err();

    let mut producer = broker.producer(&ProducerOptions::default()).unwrap();
    let topic = producer.topic("flights");
    let value = Some(b"v".as_slice());
    let record = Outgoing { topic, partition: 0, timestamp: 1, key: None, value, headers: &[], tag: 0 };
    assert_eq!(producer.send(&record).unwrap(), Sent::Queued);
    let writing = wait_for("the producer's error", || producer.flush(Duration::from_millis(100)).err());

    for error in [reading, taking, writing] {
        let said = error.to_string();
        assert!(error.kind() == ErrorKind::Fatal && said.contains("sasl.username"), "{said}");
        eprintln!("a data client with a wrong password: {said}");
    }
}

pub(crate) fn missing_acl() {
    let world = World::new();
    world.load_all(1);
    let limited = secure(&world, LIMITED.name, LIMITED.password);
    secure_show_is_refused(&world, &limited, &["TOPIC_AUTHORIZATION_FAILED", "topic=`carrier-totals`", "ACL", "READ"]);
    let state = world.dir.path().join("state");
    let mut arguments = vec!["run", "--broker", &world.kafka.secure().address, "--engine", "rocks"];
    arguments.extend(["--state-dir", state.to_str().unwrap()]);
    limited.iter().for_each(|setting| arguments.extend(["--set", setting]));
    let (code, said) = refused(&arguments);
    eprintln!("{said}");
    assert_eq!(code, Some(1), "{said}");
    // One of the topics that are not the application's own.
    assert!(GIVEN.iter().any(|topic| said.contains(&format!("topic=`{topic}`"))), "{said}");
    assert!(said.contains("ACL"), "{said}");
}

/// The table in `docs/running-on-kafka.md`, as the tool's options. `READ` of the output is the example's own: it shows what
/// comes out.
const DOCUMENTED_ACLS: [&[&str]; 5] = [
    &["--topic", "flights", "--operation", "Read", "--operation", "DescribeConfigs"],
    &[
        "--topic",
        "carrier-totals",
        "--topic",
        "hourly-departures",
        "--topic",
        "plane-legs",
        "--topic",
        "late-flights",
        "--operation",
        "Write",
        "--operation",
        "DescribeConfigs",
        "--operation",
        "Read",
    ],
    &[
        "--topic",
        "flights-",
        "--resource-pattern-type",
        "prefixed",
        "--operation",
        "Create",
        "--operation",
        "Read",
        "--operation",
        "Write",
        "--operation",
        "Delete",
        "--operation",
        "DescribeConfigs",
    ],
    &["--group", "flights", "--operation", "Read"],
    &["--transactional-id", "flights-", "--resource-pattern-type", "prefixed", "--operation", "Write"],
];

/// Adds or removes what the limited user is allowed.
fn change_acl(world: &World, change: &str, acl: &[&str]) {
    let mut tool = Jars::cached().unwrap().tool("org.apache.kafka.tools.AclCommand");
    tool.args(["--bootstrap-server", world.kafka.bootstrap(), change, "--force"]);
    tool.args(["--allow-principal", &format!("User:{}", LIMITED.name)]).args(acl);
    let output = tool.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

pub(crate) fn the_documented_acls_suffice() {
    let world = World::new();
    world.load_all(1);
    DOCUMENTED_ACLS.iter().for_each(|acl| change_acl(&world, "--add", acl));
    let state = world.dir.path().join("state");
    let mut arguments = vec!["run", "--broker", &world.kafka.secure().address, "--until-end", "--engine", "rocks"];
    arguments.extend(["--state-dir", state.to_str().unwrap()]);
    // What was read is deleted from the repartition topic while it runs, which needs a right of its own.
    arguments.extend(["--set", "repartition.purge.interval.ms=100"]);
    let limited = secure(&world, LIMITED.name, LIMITED.password);
    limited.iter().for_each(|setting| arguments.extend(["--set", setting]));
    let (code, said) = refused(&arguments);
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("AUTHORIZATION"), "{said}");
    assert_exact(&world, 1);
}

/// What the application may no longer do while it runs ends it, with an error that names what and the ACL.
pub(crate) fn acl_taken_away_at_run_time() {
    let world = World::new();
    let load = ["--data", world.flights.name, "--rate", "900", "--repeat", "100"];
    let _load = world.flights("load", "load", &load);
    world.await_topics();
    DOCUMENTED_ACLS.iter().for_each(|acl| change_acl(&world, "--add", acl));
    let mut settings = secure(&world, LIMITED.name, LIMITED.password);
    settings.push(format!("bootstrap.servers={}", world.kafka.secure().address));
    let arguments: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let cases = [
        ("exactly-once", "--topic", "flights", "Read"),
        ("exactly-once", "--topic", "carrier-totals", "Write"),
        ("exactly-once", "--group", "flights", "Read"),
        ("at-least-once", "--topic", "flights", "Read"),
        ("at-least-once", "--topic", "carrier-totals", "Write"),
    ];
    for (n, (guarantee, kind, taken, operation)) in cases.into_iter().enumerate() {
        let all: Vec<&str> = arguments.iter().copied().chain(["--guarantee", guarantee]).collect();
        let mut a = world.run(&format!("instance-{n}"), &all);
        a.await_events("applied", 3);
        let acl = [kind, taken, "--operation", operation];
        change_acl(&world, "--remove", &acl);
        let start = Instant::now();
        let status = a.process.ends();
        let said = a.process.said();
        assert_eq!(status.code(), Some(1), "{said}");
        let error = said.lines().rev().find(|line| line.starts_with("error: ")).unwrap();
        assert!(error.contains(taken) && error.contains("ACL"), "{said}");
        eprintln!("{guarantee}, without {acl:?} it ended after {:?}: {error}", start.elapsed());
        assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}: {said}", start.elapsed());
        change_acl(&world, "--add", &acl);
    }
}

pub(crate) fn untrusted_certificate() {
    let world = World::new();
    let mut settings = secure(&world, ADMIN.name, ADMIN.password);
    settings.push(format!("ssl.ca.location={}", world.kafka.secure().untrusted_ca.display()));
    secure_show_is_refused(&world, &settings, &["certificate", "ssl.ca.location"]);
}

/// A topic is deleted while records come in: the application ends, with an error that names it.
fn deletion_ends_the_application(topic: &str, guarantee: &str) {
    let world = World::new();
    let _load = world.flights("load", "load", &["--data", world.flights.name, "--rate", "900", "--repeat", "100"]);
    world.await_topics();
    let mut a = world.run("a", &["--guarantee", guarantee]);
    a.await_events("applied", 3);
    world.admin().delete_topics(&[topic]).unwrap().remove(0).unwrap();
    let start = Instant::now();
    let status = a.process.ends();
    let said = a.process.said();
    assert_eq!(status.code(), Some(1), "{said}");
    let error = said.lines().rev().find(|line| line.starts_with("error: ")).unwrap();
    let is_named = |key: &str| {
        let key = format!(" {key}=`");
        let values = error.split(&key).skip(1).filter_map(|rest| rest.split('`').next());
        values.flat_map(|topics| topics.split(',')).any(|named| named == topic)
    };
    assert!(is_named("topic") || is_named("topics"), "{said}");
    assert!(error.contains("remedy=`create the topic"), "{said}");
    eprintln!("{guarantee}, without `{topic}` it ended after {:?}: {error}", start.elapsed());
    assert!(start.elapsed() < Duration::from_secs(60), "it took {:?}: {said}", start.elapsed());
}

pub(crate) fn input_topic_deleted_under_the_application() {
    deletion_ends_the_application("flights", "exactly-once");
}

pub(crate) fn output_topic_deleted_under_the_application() {
    deletion_ends_the_application("carrier-totals", "exactly-once");
    deletion_ends_the_application("carrier-totals", "at-least-once");
}

pub(crate) fn internal_topic_deleted_under_the_application() {
    for topic in ["flights-by-carrier-repartition", CHANGELOG] {
        deletion_ends_the_application(topic, "exactly-once");
    }
}

/// A broker of before Kafka 2.5, as far as it shows before anything else: the versions that it speaks.
pub(crate) fn too_old_a_broker() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut size = [0; 4];
            while stream.read_exact(&mut size).is_ok() {
                let mut request = vec![0; u32::from_be_bytes(size) as usize];
                if stream.read_exact(&mut request).is_err() {
                    break;
                }
                // ApiVersions alone is answered: with UNSUPPORTED_VERSION to a newer one, as brokers do.
                let version = i16::from_be_bytes([request[2], request[3]]);
                let code: i16 = if version > 0 { 35 } else { 0 };
                let mut body = request[4..8].to_vec();
                body.extend(code.to_be_bytes());
                // Produce, Fetch, ListOffsets, Metadata, OffsetCommit, OffsetFetch, FindCoordinator, group requests,
                // SASL, ApiVersions, topics, transactions, configs: all in their first version.
                let apis: Vec<i16> = (0..=38).filter(|api| !(4..=7).contains(api)).collect();
                body.extend((apis.len() as i32).to_be_bytes());
                for api in apis {
                    [api, 0, 0].iter().for_each(|part| body.extend(part.to_be_bytes()));
                }
                let _ = stream.write_all(&(body.len() as u32).to_be_bytes()).and_then(|()| stream.write_all(&body));
            }
        }
    });
    show_is_refused(&address, &[], &["Kafka 2.5"]);
}
