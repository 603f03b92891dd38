//! Finds the rows of snapshots in what one node says to another, and flips bits of them.
//!
//! Rows alone are hit, because they alone have a sum of their own: for all else nodes rely on TCP's, as
//! everybody does. So this reads along, as far as it takes to know what is a row: HTTP/2 frames, the
//! streams among them that ask for `InstallSnapshot`, and on those the end of the first gRPC message,
//! which is no row but the head.

use std::collections::BTreeMap;

use rand::RngExt;

/// What an HTTP/2 connection begins with, in bytes.
const PREFACE_BYTES: usize = 24;
/// | length u24 | kind u8 | flags u8 | stream u32 |, big-endian.
const FRAME_HEAD_BYTES: usize = 9;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const END_STREAM: u8 = 1;
/// Of a frame with headers: ours are far shorter.
const HEADERS_BYTES_MAX: usize = 16 << 10;
/// "/mayfly.peer.v1.Peer/InstallSnapshot" in HPACK's code, as a request names it: paths are never put
/// into the table that would shorten them.
const PATH: [u8; 27] = [
    0x62, 0x91, 0xfa, 0x96, 0x8f, 0x4b, 0xd6, 0x52, 0xd8, 0xbf, 0x70, 0xaf, 0xac, 0xa5, 0xb1, 0x8c,
    0x95, 0x21, 0x23, 0xa2, 0x8d, 0xd5, 0x0e, 0xb4, 0x4e, 0x74, 0xff,
];
/// A stream is hit once, within so many bytes of rows: what came before may be kept, and must be.
const HIT_WITHIN_BYTES: u64 = 1 << 20;

/// One direction of one connection, from its beginning.
pub struct Snapshots {
    skip: usize,
    head: Vec<u8>,
    frame: Option<Frame>,
    /// Those that carry snapshots.
    streams: BTreeMap<u32, Stream>,
}

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    left: usize,
    /// What came of its headers.
    headers: Vec<u8>,
}

/// A snapshot under way.
#[derive(Default)]
struct Stream {
    /// The beginning of its first message.
    head: Vec<u8>,
    /// What is left of that message, once its length is known.
    head_left: Option<usize>,
    rows_bytes: u64,
    /// Where among its rows it is hit; absent: not decided, or done.
    hit_at: Option<u64>,
    decided: bool,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        let (head, streams) = (Vec::new(), BTreeMap::new());
        Snapshots { skip: PREFACE_BYTES, head, frame: None, streams }
    }
}

impl Snapshots {
    /// Reads on, and where `hits` says so flips a bit of each snapshot: in the first rows of the first
    /// that is met, anywhere in the first MiB of later ones. How many bits were flipped.
    pub fn pass(&mut self, mut bytes: &mut [u8], hits: bool, so_far: u64) -> u64 {
        let mut flipped = 0;
        while !bytes.is_empty() {
            if self.skip > 0 {
                bytes = skip(bytes, &mut self.skip);
                continue;
            }
            let Some(frame) = &mut self.frame else {
                let wanted = (FRAME_HEAD_BYTES - self.head.len()).min(bytes.len());
                self.head.extend_from_slice(&bytes[..wanted]);
                bytes = &mut bytes[wanted..];
                self.frame = Frame::of(&self.head);
                self.end_frame();
                continue;
            };
            let (payload, rest) = bytes.split_at_mut(frame.left.min(bytes.len()));
            frame.left -= payload.len();
            match frame.kind {
                HEADERS if frame.headers.len() < HEADERS_BYTES_MAX => {
                    frame.headers.extend_from_slice(payload);
                }
                DATA => {
                    if let Some(stream) = self.streams.get_mut(&frame.stream) {
                        flipped += stream.pass(payload, hits, so_far + flipped);
                    }
                }
                _ => (),
            }
            bytes = rest;
            self.end_frame();
        }
        flipped
    }

    /// Notes what a frame that is over has told.
    fn end_frame(&mut self) {
        let Some(frame) = self.frame.take_if(|frame| frame.left == 0) else { return };
        self.head.clear();
        if frame.kind == HEADERS && frame.headers.windows(PATH.len()).any(|at| at == PATH) {
            self.streams.insert(frame.stream, Stream::default());
        }
        if frame.kind == DATA && frame.flags & END_STREAM != 0 {
            self.streams.remove(&frame.stream);
        }
    }
}

fn skip<'a>(bytes: &'a mut [u8], left: &mut usize) -> &'a mut [u8] {
    let skipped = bytes.len().min(*left);
    *left -= skipped;
    &mut bytes[skipped..]
}

impl Frame {
    fn of(head: &[u8]) -> Option<Frame> {
        let &[l2, l1, l0, kind, flags, s3, s2, s1, s0] = head else { return None };
        let left = u32::from_be_bytes([0, l2, l1, l0]) as usize;
        let stream = u32::from_be_bytes([s3 & 0x7f, s2, s1, s0]);
        Some(Frame { kind, flags, stream, left, headers: Vec::new() })
    }
}

impl Stream {
    fn pass(&mut self, mut bytes: &mut [u8], hits: bool, so_far: u64) -> u64 {
        while self.head_left.is_none() && !bytes.is_empty() {
            self.head.push(bytes[0]);
            bytes = &mut bytes[1..];
            // | compressed u8 | length u32 |, big-endian, before each gRPC message.
            if let &[_, l3, l2, l1, l0] = &self.head[..] {
                self.head_left = Some(u32::from_be_bytes([l3, l2, l1, l0]) as usize);
            }
        }
        let rows = match &mut self.head_left {
            Some(left) => skip(bytes, left),
            None => return 0,
        };
        if rows.is_empty() {
            return 0;
        }
        let from = self.rows_bytes;
        self.rows_bytes += rows.len() as u64;
        if hits && !self.decided {
            let first = so_far == 0;
            let within = if first { rows.len() as u64 } else { HIT_WITHIN_BYTES };
            self.hit_at = Some(from + rand::rng().random_range(0..within));
            self.decided = true;
        }
        match self.hit_at.take_if(|at| (from..self.rows_bytes).contains(at)) {
            Some(at) if hits => {
                rows[(at - from) as usize] ^= 1 << rand::rng().random_range(0..8_u32);
                1
            }
            Some(_) | None => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }

    fn message(bytes: &[u8]) -> Vec<u8> {
        [&[0][..], &(bytes.len() as u32).to_be_bytes(), bytes].concat()
    }

    /// A connection with an append on stream 1 and a snapshot on stream 3; where its rows begin.
    fn connection() -> (Vec<u8>, usize) {
        let mut all = vec![b'P'; PREFACE_BYTES];
        all.extend(frame(4, 0, 0, &[0; 12])); // Settings.
        all.extend(frame(HEADERS, 4, 1, b"another path"));
        all.extend(frame(HEADERS, 4, 3, &[&[0x45, 0x80 | 27][..], &PATH, &[0x40]].concat()));
        all.extend(frame(DATA, 0, 1, &message(&[1; 5_000])));
        // The head ends in the middle of a frame, as gRPC has it.
        let head = message(&[2; 300]);
        all.extend(frame(DATA, 0, 3, &head[..200]));
        all.extend(frame(DATA, 0, 1, &message(&[1; 10])));
        let rows_from = all.len() + FRAME_HEAD_BYTES + head.len() - 200;
        let rows = message(&[3; 9_000]);
        all.extend(frame(DATA, 0, 3, &[&head[200..], &rows[..4_000]].concat()));
        all.extend(frame(DATA, END_STREAM, 3, &rows[4_000..]));
        all.extend(frame(DATA, 0, 1, &message(&[1; 5_000])));
        (all, rows_from)
    }

    #[test]
    fn one_bit_of_a_snapshots_rows_is_flipped_and_nothing_else_however_it_arrives() {
        let (sent, rows_from) = connection();
        for chunk_bytes in [1, 7, 100, 1_000, 16 * 1024] {
            let mut arrived = sent.clone();
            let mut snapshots = Snapshots::default();
            let mut flipped = 0;
            for chunk in arrived.chunks_mut(chunk_bytes) {
                flipped += snapshots.pass(chunk, true, flipped);
            }
            assert_eq!(flipped, 1);
            let differ: Vec<usize> =
                (0..sent.len()).filter(|at| sent[*at] != arrived[*at]).collect();
            assert!(matches!(differ[..], [at] if (rows_from..rows_from + 9_100).contains(&at)));
            assert_eq!((sent[differ[0]] ^ arrived[differ[0]]).count_ones(), 1);
            assert!(snapshots.streams.is_empty(), "it is over");
        }
    }

    #[test]
    fn nothing_is_changed_unless_it_is_asked_for_and_a_later_snapshot_may_arrive() {
        let (sent, _) = connection();
        let mut arrived = sent.clone();
        assert_eq!(Snapshots::default().pass(&mut arrived, false, 0), 0);
        // Nine of a thousand thousand bytes: as good as never.
        let hit = (0..20).filter(|_| Snapshots::default().pass(&mut arrived.clone(), true, 1) > 0);
        assert!(hit.count() < 10);
        assert_eq!(arrived, sent);
    }

    #[test]
    fn what_is_no_http_passes_as_it_is() {
        for byte in 0..=u8::MAX {
            let mut bytes = [byte; 40_000];
            assert_eq!(Snapshots::default().pass(&mut bytes, true, 0), 0);
            assert_eq!(bytes, [byte; 40_000]);
        }
    }
}
