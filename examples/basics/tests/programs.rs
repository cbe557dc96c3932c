//! The programs run, and print what they should.
#![expect(clippy::unwrap_used, reason = "a panic is how a test reports")]

use std::process::Command;

fn printed(program: &str) -> Vec<String> {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn word_count() {
    let counts = "a 3, among 1, cloudy 1, darkness 1, galleon 1, ghostly 1, gusty 1, moon 1, moonlight 1, moor 1, of 2, over 1, \
                  purple 1, ribbon 1, road 1, seas 1, the 5, torrent 1, tossed 1, trees 1, upon 1, was 3, wind 1";
    assert_eq!(printed(env!("CARGO_BIN_EXE_word-count")), counts.split(", ").collect::<Vec<_>>());
}

#[test]
fn fraud_detection() {
    let expected = ["card 4711 spent 110000 cents within ten minutes", "cards watched: 1"];
    assert_eq!(printed(env!("CARGO_BIN_EXE_fraud-detection")), expected);
}

#[test]
fn dedup() {
    let expected = ["ada ordered a kettle (7f3a)", "ben ordered a chair (91c0)", "ada ordered a kettle (e2d4)"];
    assert_eq!(printed(env!("CARGO_BIN_EXE_dedup")), expected);
}

#[test]
fn dead_letters() {
    let printed = printed(env!("CARGO_BIN_EXE_dead-letters"));
    let [cellar, roof, no_json, too_cold] = &printed[..] else { panic!("{printed:?}") };
    assert_eq!([cellar, roof], ["cellar: 284.65 K", "roof: 297.40 K"]);
    assert!(no_json.starts_with("celsius: 24 of roof at offset 1: deserialization: "), "{no_json}");
    assert_eq!(too_cold, r#"{"celsius": -400} of garden at offset 2: processing: colder than can be"#);
}
