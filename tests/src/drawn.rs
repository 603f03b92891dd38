//! What a program draws on a terminal of the test's own.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::sync::mpsc;
use std::thread;

/// What comes out of a terminal until its last writer has gone.
pub fn read(master: OwnedFd) -> mpsc::Receiver<String> {
    let (told, read) = mpsc::sync_channel(1024);
    thread::spawn(move || {
        let mut master = File::from(master);
        let mut bytes = [0; 65536];
        // The last reader sees an error where others see an end.
        while let Ok(count @ 1..) = master.read(&mut bytes) {
            if told.send(String::from_utf8_lossy(&bytes[..count]).into_owned()).is_err() {
                return;
            }
        }
    });
    read
}

/// Less what moves the cursor and sets colours.
pub fn plain(drawn: &str) -> String {
    let (mut plain, mut rest) = (String::new(), drawn);
    while let Some(at) = rest.find("\u{1b}[") {
        plain.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find(|c: char| c.is_ascii_alphabetic()).map_or(after.len(), |end| end + 1);
        rest = &after[end..];
    }
    plain + rest
}

/// Less blanks: where one is drawn the cursor may just as well be moved over it.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect()
}

/// Whether a text is seen.
pub fn is_seen(drawn: &str, text: &str) -> bool {
    squeezed(&plain(drawn)).contains(&squeezed(text))
}
