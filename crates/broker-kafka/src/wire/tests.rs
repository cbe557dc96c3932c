//! Connections to servers that misbehave, and to one that does not.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::sasl_handshake_response::SaslHandshakeResponse;
use kafka_protocol::messages::{ApiKey, HeartbeatRequest, HeartbeatResponse, SaslAuthenticateResponse};
use millpond_broker_api::{Error, ErrorKind};

use super::connection::Connection;
use super::fake::{Peer, serve, settings};
use super::{Address, Interrupt, text};
use crate::deadline::Deadline;
use crate::error::code_of;

/// What a test gives whatever ends by itself.
fn far() -> Deadline {
    Deadline::after(Duration::from_secs(30))
}

fn open_with(rows: &[(&str, &str)], script: fn(&mut Peer)) -> Result<Connection, Error> {
    Connection::open(&serve(vec![Box::new(script)]), &settings(rows), &Arc::<Interrupt>::default(), &far())
}

fn refused(script: fn(&mut Peer)) -> (ErrorKind, String) {
    let error = open_with(&[("socket.connection.setup.timeout.ms", "300")], script).unwrap_err();
    assert!(error.to_string().contains("address=`127.0.0.1:"), "{error}");
    (error.kind(), error.to_string())
}

fn beat(connection: &mut Connection) -> Result<i16, Error> {
    connection.call(far(), |_| HeartbeatRequest::default()).map(|answer| answer.error_code)
}

const HEARTBEATS: &[(ApiKey, i16)] =
    &[(ApiKey::Heartbeat, 4), (ApiKey::SaslHandshake, 1), (ApiKey::SaslAuthenticate, 2)];

#[test]
fn a_broker_is_asked_and_answers() {
    let mut connection = open_with(&[("client.id", "me")], |peer| {
        peer.greet(HEARTBEATS);
        for code in [0, 27] {
            let request = peer.next().unwrap();
            assert_eq!((request.key, request.version), (12, 4));
            assert!(request.bytes.windows(2).any(|w| w == b"me"), "the client's id");
            peer.answer(&request, &HeartbeatResponse::default().with_error_code(code));
        }
        peer.drain();
    })
    .unwrap();
    assert_eq!(beat(&mut connection).unwrap(), 0);
    assert_eq!(beat(&mut connection).unwrap(), 27);
    assert!(connection.is_usable());
}

#[test]
fn a_broker_that_knows_only_old_greetings_is_asked_again() {
    let mut connection = open_with(&[], |peer| {
        let hello = peer.next().unwrap();
        peer.frame(hello.correlation, b"\x00\x23\x00\x00\x00\x01\x00\x12\x00\x00\x00\x02");
        let hello = peer.next().unwrap();
        assert_eq!((hello.key, hello.version), (18, 0));
        peer.frame(hello.correlation, b"\x00\x00\x00\x00\x00\x01\x00\x0c\x00\x00\x00\x03");
        let request = peer.next().unwrap();
        assert_eq!(request.version, 3);
        peer.answer(&request, &HeartbeatResponse::default().with_error_code(22));
    })
    .unwrap();
    assert_eq!(beat(&mut connection).unwrap(), 22);
    let error = connection.versions().suffice().unwrap_err();
    assert_eq!((error.kind(), code_of(&error)), (ErrorKind::Fatal, Some(35)));
}

#[test]
fn a_web_server_is_no_broker() {
    let (kind, text) = refused(|peer| peer.send(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(kind, ErrorKind::Fatal);
    assert!(text.contains("not a Kafka broker, or TLS is expected on this port"), "{text}");
}

#[test]
fn garbage_is_no_broker() {
    for script in [
        (|peer| peer.send(&[0xff; 64])) as fn(&mut Peer),
        |peer| peer.send(b"\0\0\0\x02hi"),
        |peer| peer.send(b"\0\0\0\x20and these are not the bytes of versions"),
        |peer| {
            let hello = peer.next().unwrap();
            peer.frame(hello.correlation, b"\x00\x00\x7f");
        },
        |peer| {
            let hello = peer.next().unwrap();
            peer.frame(hello.correlation + 1, b"\x00\x00\x01\x00\x00\x00\x00\x00");
        },
    ] {
        let (kind, text) = refused(script);
        assert_eq!(kind, ErrorKind::Fatal, "{text}");
        assert!(text.contains("not a Kafka broker"), "{text}");
    }
}

#[test]
fn a_port_with_tls_is_recognized_by_its_alert() {
    let (kind, text) = refused(|peer| peer.send(&[0x15, 0x03, 0x03, 0, 2, 2, 10]));
    assert_eq!(kind, ErrorKind::Fatal);
    assert!(text.contains("what=`TLS is expected on this port`"), "{text}");
}

#[test]
fn who_closes_at_once_may_be_stopping() {
    let (kind, text) = refused(|_| {});
    assert_eq!(kind, ErrorKind::Retriable);
    assert!(text.contains("or TLS is expected on this port") && text.contains("`security.protocol`"), "{text}");
}

#[test]
fn who_says_nothing_is_given_up() {
    let (kind, text) = refused(Peer::drain);
    assert_eq!(kind, ErrorKind::Retriable);
    assert!(text.contains("no answer in time"), "{text}");
}

#[test]
fn who_drips_is_given_up_as_well() {
    // Each byte comes in time, the answer does not.
    let (kind, text) = refused(|peer| {
        peer.send(b"\0\0\x10\0");
        while peer.stream.write_all(b"\0").is_ok() {
            let _ = peer.stream.set_read_timeout(Some(Duration::from_millis(20)));
            let _ = peer.stream.read(&mut [0; 64]);
        }
    });
    assert_eq!(kind, ErrorKind::Retriable);
    assert!(text.contains("no answer in time"), "{text}");
}

#[test]
fn nobody_is_there() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = Address { host: "127.0.0.1".to_owned(), port: free };
    let error = Connection::open(&address, &settings(&[]), &Arc::default(), &far()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable);
    assert!(error.to_string().contains(&format!("address=`127.0.0.1:{free}`")), "{error}");
    let address = Address { host: "no-such-host.invalid".to_owned(), port: 9092 };
    let error = Connection::open(&address, &settings(&[]), &Arc::default(), &far()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Retriable);
    assert!(error.to_string().contains("address=`no-such-host.invalid:9092`"), "{error}");
}

#[test]
fn tls_to_a_port_without_it() {
    for (script, kind) in [
        ((|peer| peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as fn(&mut Peer), ErrorKind::Fatal),
        (|peer| drop(peer.stream.read(&mut [0; 8])), ErrorKind::Retriable),
    ] {
        let error = open_with(&[("security.protocol", "ssl")], script).unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains("TLS is not expected on this port"), "{error}");
    }
}

#[test]
fn answers_that_are_none() {
    for (script, kind, what) in [
        (
            (|peer| {
                peer.greet(HEARTBEATS);
                let request = peer.next().unwrap();
                peer.frame(request.correlation + 7, &[0; 8]);
            }) as fn(&mut Peer),
            ErrorKind::Retriable,
            "an answer that belongs to no request",
        ),
        (
            |peer| {
                peer.greet(HEARTBEATS);
                peer.next().unwrap();
                peer.send(&i32::MAX.to_be_bytes());
                peer.drain();
            },
            ErrorKind::Fatal,
            "an answer that is too long",
        ),
        (
            |peer| {
                peer.greet(HEARTBEATS);
                let request = peer.next().unwrap();
                peer.frame(request.correlation, &[0]);
            },
            ErrorKind::Fatal,
            "an answer that cannot be read",
        ),
        (
            |peer| {
                peer.greet(HEARTBEATS);
                peer.next().unwrap();
                peer.send(&[0, 0, 0, 90, 1, 2, 3]);
            },
            ErrorKind::Retriable,
            "SASL is expected on this port",
        ),
    ] {
        let error = beat(&mut open_with(&[], script).unwrap()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn closed_connections_are_of_no_use() {
    let connection = open_with(&[], |peer| peer.greet(HEARTBEATS)).unwrap();
    let limit = far();
    while connection.is_usable() {
        assert!(!limit.is_over(), "the end was not noticed");
        std::thread::yield_now();
    }
}

const PLAIN: &[(&str, &str)] = &[
    ("security.protocol", "sasl_plaintext"),
    ("sasl.mechanism", "PLAIN"),
    ("sasl.username", "ann"),
    ("sasl.password", "s3cret"),
];

fn take_login(peer: &mut Peer, answer: SaslAuthenticateResponse) {
    peer.greet(HEARTBEATS);
    let request = peer.next().unwrap();
    assert_eq!((request.key, request.version), (17, 1));
    peer.answer(&request, &SaslHandshakeResponse::default().with_mechanisms(vec![text("PLAIN")]));
    let request = peer.next().unwrap();
    assert_eq!(request.key, 36);
    assert!(request.bytes.windows(11).any(|w| w == b"\0ann\0s3cret"), "user and password");
    peer.answer(&request, &answer);
}

#[test]
fn plain_logs_in() {
    let mut connection = open_with(PLAIN, |peer| {
        take_login(peer, SaslAuthenticateResponse::default());
        let request = peer.next().unwrap();
        peer.answer(&request, &HeartbeatResponse::default().with_error_code(25));
        peer.drain();
    })
    .unwrap();
    assert_eq!(beat(&mut connection).unwrap(), 25);
}

#[test]
fn a_wrong_password_is_fatal_and_not_shown() {
    let error = open_with(PLAIN, |peer| {
        take_login(
            peer,
            SaslAuthenticateResponse::default().with_error_code(58).with_error_message(Some(text("Go away"))),
        );
    })
    .unwrap_err();
    assert_eq!((error.kind(), code_of(&error)), (ErrorKind::Fatal, Some(58)));
    let shown = format!("{error:?}");
    assert!(shown.contains("ann") && shown.contains("Go away") && !shown.contains("s3cret"), "{shown}");
    assert!(shown.contains("check `sasl.username` and `sasl.password`"), "{shown}");
}

#[test]
fn a_mechanism_that_is_not_offered_is_named_with_those_that_are() {
    let error = open_with(PLAIN, |peer| {
        peer.greet(HEARTBEATS);
        let request = peer.next().unwrap();
        let offered = vec![text("GSSAPI"), text("SCRAM-SHA-512")];
        peer.answer(&request, &SaslHandshakeResponse::default().with_error_code(33).with_mechanisms(offered));
    })
    .unwrap_err();
    assert_eq!((error.kind(), code_of(&error)), (ErrorKind::Fatal, Some(33)));
    assert!(error.to_string().contains("offered=`GSSAPI, SCRAM-SHA-512`"), "{error}");
}

#[test]
fn a_login_that_ends_soon_makes_the_connection_useless() {
    let connection = open_with(PLAIN, |peer| {
        take_login(peer, SaslAuthenticateResponse::default().with_session_lifetime_ms(1));
        peer.drain();
    })
    .unwrap();
    let limit = far();
    while connection.is_usable() {
        assert!(!limit.is_over(), "the login does not end");
        std::thread::yield_now();
    }
}

#[test]
fn an_interrupt_ends_what_runs_and_what_would_begin() {
    let interrupt = Arc::<Interrupt>::default();
    let address = serve(vec![Box::new(Peer::drain), Box::new(Peer::drain)]);
    let (settings, waiting) = (settings(&[("socket.connection.setup.timeout.ms", "3600000")]), interrupt.clone());
    let target = address.clone();
    let call = std::thread::Builder::new()
        .spawn(move || Connection::open(&target, &settings, &waiting, &far()).unwrap_err())
        .unwrap();
    let limit = far();
    while interrupt.open() == 0 {
        assert!(!limit.is_over(), "it does not connect");
        std::thread::yield_now();
    }
    interrupt.set_off();
    assert_eq!(call.join().unwrap().kind(), ErrorKind::Retriable);
    assert!(Connection::open(&address, &super::fake::settings(&[]), &interrupt, &far()).is_err());
}

mod clusters {
    use super::*;
    use crate::settings::WireSettings;
    use crate::wire::fake::Script;
    use crate::wire::{Cluster, To};
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{BrokerId, MetadataResponse, TopicName};

    const METADATA: &[(ApiKey, i16)] = &[(ApiKey::Metadata, 12), (ApiKey::Heartbeat, 4)];

    fn cluster(bootstrap: Vec<Address>) -> Cluster {
        Cluster::new(Arc::new(WireSettings { bootstrap, ..settings(&[]) }))
    }

    fn of(scripts: Vec<Script>) -> Address {
        serve(scripts)
    }

    fn nobody() -> Address {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        Address { host: "127.0.0.1".to_owned(), port }
    }

    /// Answers Metadata: itself is broker 1, which leads partition 0 of `t`; partition 1 of `half` has no leader.
    fn describe(peer: &mut Peer) {
        let request = peer.next().unwrap();
        assert_eq!(request.key, ApiKey::Metadata as i16);
        let broker = MetadataResponseBroker::default().with_node_id(BrokerId(1)).with_host(text("127.0.0.1"));
        let partition = |index, leader| {
            MetadataResponsePartition::default().with_partition_index(index).with_leader_id(BrokerId(leader))
        };
        let topic = |name, partitions| {
            MetadataResponseTopic::default().with_name(Some(TopicName(text(name)))).with_partitions(partitions)
        };
        let answer = MetadataResponse::default()
            .with_brokers(vec![broker.with_port(peer.port())])
            .with_controller_id(BrokerId(1))
            .with_topics(vec![
                topic("t", vec![partition(0, 1)]),
                topic("half", vec![partition(0, 1), partition(1, -1)]),
            ]);
        peer.answer(&request, &answer);
    }

    fn beat_at(cluster: &mut Cluster, to: To<'_>) -> Result<i16, Error> {
        let deadline = Deadline::after(Duration::from_secs(30));
        cluster.call(to, deadline, |_| HeartbeatRequest::default()).map(|answer| answer.error_code)
    }

    #[test]
    fn addresses_are_tried_in_turn_and_connections_used_again() {
        let mut cluster = cluster(vec![
            nobody(),
            of(vec![Box::new(|peer| {
                peer.greet(METADATA);
                describe(peer);
                for code in [1, 2, 3] {
                    let request = peer.next().unwrap();
                    peer.answer(&request, &HeartbeatResponse::default().with_error_code(code));
                }
                peer.drain();
            })]),
        ]);
        cluster.metadata(&["t", "half"]).unwrap();
        assert_eq!((cluster.leader("t", 0).map(|l| (l.node, l.epoch)), cluster.leader("t", 1)), (Some((1, -1)), None));
        assert_eq!(cluster.leader("half", 0), None, "asked again until all are there");
        cluster.forget_leaders("t");
        assert_eq!(cluster.leader("t", 0), None);
        for (to, code) in [(To::Node(1), 1), (To::Controller, 2), (To::Any, 3)] {
            assert_eq!(beat_at(&mut cluster, to).unwrap(), code, "over the one connection that there is");
        }
        assert_eq!(beat_at(&mut cluster, To::Node(2)).unwrap_err().kind(), ErrorKind::Retriable);
        assert_eq!(beat_at(&mut cluster, To::Coordinator("g")).unwrap_err().kind(), ErrorKind::Retriable);
    }

    #[test]
    fn a_broken_connection_is_made_anew() {
        let once: fn() -> Script = || {
            Box::new(|peer| {
                peer.greet(METADATA);
                let request = peer.next().unwrap();
                peer.answer(&request, &HeartbeatResponse::default());
            })
        };
        let mut cluster = cluster(vec![of(vec![once(), once()])]);
        beat_at(&mut cluster, To::Any).unwrap();
        let limit = far();
        while beat_at(&mut cluster, To::Any).is_err() {
            assert!(!limit.is_over(), "no second connection");
        }
    }

    #[test]
    fn what_time_does_not_mend_is_told_rather_than_what_it_may() {
        let web: Script = Box::new(|peer| peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        let error = cluster(vec![of(vec![web]), nobody()]).metadata(&[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fatal);
        assert!(error.to_string().contains("not a Kafka broker") && error.to_string().contains("tried=`"), "{error}");
    }

    #[test]
    fn a_check_names_what_an_old_broker_lacks() {
        let old: Script = Box::new(|peer| {
            peer.greet(METADATA);
            peer.drain();
        });
        let error = cluster(vec![of(vec![old])]).check().unwrap_err();
        assert_eq!((error.kind(), code_of(&error)), (ErrorKind::Fatal, Some(35)));
        assert!(
            error.to_string().contains("request=`CreateTopics`") && error.to_string().contains("address="),
            "{error}"
        );
    }

    #[test]
    fn metadata_requests_create_nothing() {
        let mut cluster = cluster(vec![of(vec![Box::new(|peer| {
            peer.greet(&[(ApiKey::Metadata, 8)]);
            let request = peer.next().unwrap();
            // Two flags on authorized operations end the request; before them stands the one on creation.
            assert_eq!(request.bytes[request.bytes.len() - 3..], [0, 0, 0]);
            peer.answer(&request, &MetadataResponse::default());
        })])]);
        cluster.metadata(&["t"]).unwrap();
    }
}
