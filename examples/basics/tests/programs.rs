//! The programs run, and print what they should.

use std::process::Command;

fn prints(program: &str, expected: &[&str]) {
    let output = Command::new(program).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn word_count() {
    let counts = "a 3, among 1, cloudy 1, darkness 1, galleon 1, ghostly 1, gusty 1, moon 1, moonlight 1, moor 1, of 2, over 1, \
                  purple 1, ribbon 1, road 1, seas 1, the 5, torrent 1, tossed 1, trees 1, upon 1, was 3, wind 1";
    prints(env!("CARGO_BIN_EXE_word-count"), &counts.split(", ").collect::<Vec<_>>());
}

#[test]
fn fraud_detection() {
    let expected = ["card 4711 spent 110000 cents within ten minutes", "cards watched: 1"];
    prints(env!("CARGO_BIN_EXE_fraud-detection"), &expected);
}

#[test]
fn dedup() {
    let expected = ["ada ordered a kettle (7f3a)", "ben ordered a chair (91c0)", "ada ordered a kettle (e2d4)"];
    prints(env!("CARGO_BIN_EXE_dedup"), &expected);
}
