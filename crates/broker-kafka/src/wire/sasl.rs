//! Logging in: PLAIN, and SCRAM (RFC 5802, RFC 7677) without channel binding.

use std::time::Duration;

use kafka_protocol::messages::{SaslAuthenticateRequest, SaslHandshakeRequest};
use millpond_broker_api::membership::code;
use millpond_broker_api::{Error, ErrorKind, Result};
use openssl::base64::{decode_block, encode_block};
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::pkey::PKey;
use openssl::sign::Signer;

use super::connection::Connection;
use super::text;
use crate::deadline::Deadline;
use crate::error;
use crate::security::{Mechanism, Sasl};

const OP: &str = "log in to a broker";

/// How often a hash may be repeated: brokers must not make it cheap for whoever listens, or dear for us.
const ITERATIONS: std::ops::RangeInclusive<usize> = 4_096..=1_000_000;

/// Logs in. Answers how long the login holds, if the broker limits that (KIP-368).
pub(crate) fn log_in(connection: &mut Connection, sasl: &Sasl, deadline: Deadline) -> Result<Option<Duration>> {
    let name = sasl.mechanism.name();
    let request = SaslHandshakeRequest::default().with_mechanism(text(name));
    let answer = connection.call(deadline, |_| request)?;
    if answer.error_code != code::NONE {
        let offered: Vec<_> = answer.mechanisms.iter().map(|m| m.as_str()).collect();
        return Err(error::of_broker(OP, answer.error_code)
            .with("address", connection.address())
            .with("mechanism", name)
            .with("offered", offered.join(", ")));
    }
    let digest = match sasl.mechanism {
        Mechanism::Plain => {
            let message = format!("\0{}\0{}", sasl.username, sasl.password);
            return Ok(exchange(connection, message.into_bytes(), sasl, deadline)?.1);
        }
        Mechanism::ScramSha256 => MessageDigest::sha256(),
        Mechanism::ScramSha512 => MessageDigest::sha512(),
    };
    let mut nonce = [0; 24];
    let broken = |e: ErrorStack| Error::new(ErrorKind::Fatal, OP).caused_by(e);
    openssl::rand::rand_bytes(&mut nonce).map_err(broken)?;
    let scram = Scram { digest, username: &sasl.username, password: &sasl.password, nonce: encode_block(&nonce) };
    let (server_first, _) = exchange(connection, scram.first().into_bytes(), sasl, deadline)?;
    let refused = |connection: &Connection, what| {
        Error::new(ErrorKind::Fatal, OP)
            .with("address", connection.address())
            .with("mechanism", name)
            .with("what", what)
    };
    let proof = scram.prove(&server_first).map_err(|what| refused(connection, what))?;
    let (server_last, lifetime) = exchange(connection, proof.message.into_bytes(), sasl, deadline)?;
    if !is_signature(&server_last, &proof.server_signature) {
        // Whoever answered does not know the password either.
        return Err(refused(connection, "the server's signature is wrong"));
    }
    Ok(lifetime)
}

/// Sends one message of the mechanism and gets one.
fn exchange(
    connection: &mut Connection,
    message: Vec<u8>,
    sasl: &Sasl,
    deadline: Deadline,
) -> Result<(Vec<u8>, Option<Duration>)> {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(message.into());
    let answer = connection.call(deadline, |_| request)?;
    if answer.error_code != code::NONE {
        return Err(error::of_broker(OP, answer.error_code)
            .with("address", connection.address())
            .with("mechanism", sasl.mechanism.name())
            .with("username", &sasl.username)
            .with("text", answer.error_message.as_deref().unwrap_or("")));
    }
    let lifetime = u64::try_from(answer.session_lifetime_ms).ok().filter(|ms| *ms > 0);
    Ok((answer.auth_bytes.to_vec(), lifetime.map(Duration::from_millis)))
}

/// A login's constants.
struct Scram<'a> {
    digest: MessageDigest,
    username: &'a str,
    password: &'a str,
    nonce: String,
}

/// The client's last message, and what the server must answer to it.
struct Proof {
    message: String,
    server_signature: Vec<u8>,
}

impl Scram<'_> {
    fn bare(&self) -> String {
        let name = self.username.replace('=', "=3D").replace(',', "=2C");
        format!("n={name},r={}", self.nonce)
    }

    /// The first message.
    fn first(&self) -> String {
        format!("n,,{}", self.bare())
    }

    /// The answer to the server's first message.
    fn prove(&self, server_first: &[u8]) -> std::result::Result<Proof, &'static str> {
        let text = std::str::from_utf8(server_first).map_err(|_| "the server's message is no text")?;
        let field =
            |key| text.split(',').find_map(|field| field.strip_prefix(key)).ok_or("the server's message lacks a field");
        let (nonce, salt, iterations) = (field("r=")?, field("s=")?, field("i=")?);
        if !nonce.starts_with(&self.nonce) || nonce.len() == self.nonce.len() {
            return Err("the server's nonce does not belong to ours");
        }
        let salt = decode_block(salt).map_err(|_| "the salt is no Base64")?;
        let iterations = iterations.parse().ok().filter(|n| ITERATIONS.contains(n));
        let iterations = iterations.ok_or("the number of iterations is not between 4096 and 1000000")?;
        self.keys(text, nonce, &salt, iterations).map_err(|_| "OpenSSL refused")
    }

    fn keys(
        &self,
        server_first: &str,
        nonce: &str,
        salt: &[u8],
        iterations: usize,
    ) -> std::result::Result<Proof, ErrorStack> {
        let mut salted = vec![0; self.digest.size()];
        openssl::pkcs5::pbkdf2_hmac(self.password.as_bytes(), salt, iterations, self.digest, &mut salted)?;
        let client_key = self.hmac(&salted, b"Client Key")?;
        // `biws` is `n,,`: no channel binding.
        let without_proof = format!("c=biws,r={nonce}");
        let signed = format!("{},{server_first},{without_proof}", self.bare());
        let signature = self.hmac(&hash(self.digest, &client_key)?, signed.as_bytes())?;
        let proof: Vec<u8> = client_key.iter().zip(&signature).map(|(a, b)| a ^ b).collect();
        let server_signature = self.hmac(&self.hmac(&salted, b"Server Key")?, signed.as_bytes())?;
        Ok(Proof { message: format!("{without_proof},p={}", encode_block(&proof)), server_signature })
    }

    fn hmac(&self, key: &[u8], data: &[u8]) -> std::result::Result<Vec<u8>, ErrorStack> {
        let key = PKey::hmac(key)?;
        Signer::new(self.digest, &key)?.sign_oneshot_to_vec(data)
    }
}

/// Whether the server's last message carries this signature.
fn is_signature(server_last: &[u8], want: &[u8]) -> bool {
    let text = std::str::from_utf8(server_last).unwrap_or("");
    let got = text.split(',').find_map(|field| field.strip_prefix("v=")).and_then(|v| decode_block(v).ok());
    got.is_some_and(|got| got.len() == want.len() && openssl::memcmp::eq(&got, want))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scram(digest: MessageDigest, nonce: &str) -> Scram<'static> {
        Scram { digest, username: "user", password: "pencil", nonce: nonce.to_owned() }
    }

    /// RFC 7677, section 3.
    #[test]
    fn sha_256_as_in_rfc_7677() {
        let scram = scram(MessageDigest::sha256(), "rOprNGfwEbeRWgbNEkqO");
        assert_eq!(scram.first(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
        let proof = scram.prove(format!("r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096").as_bytes()).unwrap();
        assert_eq!(proof.message, format!("c=biws,r={nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="));
        assert!(is_signature(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", &proof.server_signature));
        assert!(!is_signature(b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", &proof.server_signature));
        for wrong in [&b""[..], b"e=other-error", b"v=", b"v=!", b"\xff"] {
            assert!(!is_signature(wrong, &proof.server_signature));
        }
    }

    /// RFC 5802, section 5: the same with another hash.
    #[test]
    fn any_hash_as_in_rfc_5802() {
        let scram = scram(MessageDigest::sha1(), "fyko+d2lbbFgONRv9qkxdawL");
        let nonce = "fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j";
        let proof = scram.prove(format!("r={nonce},s=QSXCR+Q6sek8bf92,i=4096").as_bytes()).unwrap();
        assert_eq!(proof.message, format!("c=biws,r={nonce},p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="));
        assert!(is_signature(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=", &proof.server_signature));
    }

    #[test]
    fn names_are_escaped() {
        let scram = Scram { digest: MessageDigest::sha512(), username: "a=b,c", password: "", nonce: "N".to_owned() };
        assert_eq!(scram.first(), "n,,n=a=3Db=2Cc,r=N");
    }

    #[test]
    fn servers_are_not_believed_everything() {
        let scram = scram(MessageDigest::sha512(), "nonce");
        let what = |message: &[u8]| scram.prove(message).err();
        assert_eq!(what(b"r=nonceX,s=QSXCR+Q6sek8bf92,i=4096"), None);
        assert_eq!(what(b"\xff"), Some("the server's message is no text"));
        assert_eq!(what(b"r=nonceX,s=QSXCR+Q6sek8bf92"), Some("the server's message lacks a field"));
        let nonce = Some("the server's nonce does not belong to ours");
        assert_eq!(what(b"r=nonce,s=QSXCR+Q6sek8bf92,i=4096"), nonce);
        assert_eq!(what(b"r=other,s=QSXCR+Q6sek8bf92,i=4096"), nonce);
        assert_eq!(what(b"r=nonceX,s=?,i=4096"), Some("the salt is no Base64"));
        for iterations in ["1", "4095", "1000001", "99999999999999999999", "-1", ""] {
            let message = format!("r=nonceX,s=QSXCR+Q6sek8bf92,i={iterations}");
            assert_eq!(what(message.as_bytes()), Some("the number of iterations is not between 4096 and 1000000"));
        }
    }
}
