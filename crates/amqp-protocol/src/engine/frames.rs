//! Frames on their way out.

use bytes::{Buf, Bytes};

use super::event::Millis;
use super::output::Output;
use crate::codec::{
    Close, Composite, DeliveryState, Detach, Disposition, End, Error, Outcome, SaslFrame, Transfer,
    frame,
};
use crate::condition;

/// A frame that may say why.
pub(crate) trait Reason {
    fn error_mut(&mut self) -> Option<&mut Error>;
}

impl Reason for Close {
    fn error_mut(&mut self) -> Option<&mut Error> {
        self.error.as_mut()
    }
}

impl Reason for End {
    fn error_mut(&mut self) -> Option<&mut Error> {
        self.error.as_mut()
    }
}

impl Reason for Detach {
    fn error_mut(&mut self) -> Option<&mut Error> {
        self.error.as_mut()
    }
}

impl Reason for Disposition {
    fn error_mut(&mut self) -> Option<&mut Error> {
        match self.state.as_mut()? {
            DeliveryState::Outcome(Outcome::Rejected(error)) => error.as_mut(),
            DeliveryState::Outcome(
                Outcome::Accepted | Outcome::Released | Outcome::Modified(_),
            )
            | DeliveryState::Received(_)
            | DeliveryState::Declared(_)
            | DeliveryState::Transactional { .. } => None,
        }
    }
}

/// Builds frames in the output, none larger than the peer takes.
#[derive(Debug)]
pub(crate) struct FrameWriter {
    pub output: Output,
    /// The peer's max-frame-size.
    pub bytes_max: u32,
    /// The latest time heard of.
    pub now: Millis,
    /// When the peer was last written a frame.
    pub sent_at: Millis,
    /// A frame did not fit, and the peer was told so with a close: the connection is over.
    overflow: Option<Error>,
    /// The last frame that the peer waits for is written.
    is_over: bool,
}

impl FrameWriter {
    pub(crate) fn new(now: Millis) -> FrameWriter {
        let (output, bytes_max) = (Output::default(), u32::MAX);
        FrameWriter { output, bytes_max, now, sent_at: now, overflow: None, is_over: false }
    }

    /// The eight bytes that say which protocol follows.
    pub(crate) fn write_header(&mut self, header: [u8; 8]) {
        self.output.tail().extend_from_slice(&header);
    }

    pub(crate) fn write_sasl(&mut self, sasl: &SaslFrame) {
        let out = self.output.tail();
        let start = frame::begin(out, frame::FrameType::Sasl, 0);
        sasl.write(out);
        frame::end(out, start, 0);
    }

    /// Writes one frame without payload. One that the peer does not take ends the connection: what cannot
    /// be said in its frames it cannot be told.
    pub(crate) fn write(&mut self, channel: u16, performative: &impl Composite) {
        if self.try_write(channel, performative).is_ok() {
            return;
        }
        self.bytes_max = u32::MAX;
        if self.is_over {
            return;
        }
        let why = "an answer does not fit your max-frame-size";
        let error = Error::new(condition::FRAME_SIZE_TOO_SMALL, why);
        self.overflow = Some(error.clone());
        self.write(0, &Close { error: Some(error) });
    }

    /// Writes one frame without payload, unless it is larger than the peer takes: then nothing is
    /// written, and the error says by how many bytes.
    pub(crate) fn try_write(
        &mut self,
        channel: u16,
        performative: &impl Composite,
    ) -> Result<(), usize> {
        let out = self.output.tail();
        let start = frame::begin(out, frame::FrameType::Amqp, channel);
        performative.write(out);
        frame::end(out, start, 0);
        match (out.len() - start).checked_sub(self.bytes_max as usize) {
            None | Some(0) => {
                self.sent_at = self.now;
                Ok(())
            }
            Some(excess) => {
                out.truncate(start);
                Err(excess)
            }
        }
    }

    /// Writes one frame that says why. Of a long text the peer is told as much as fits (CONN-9).
    pub(crate) fn write_reason<T: Composite + Reason>(&mut self, channel: u16, mut frame: T) {
        if let Err(excess) = self.try_write(channel, &frame) {
            if let Some(error) = frame.error_mut() {
                error.shorten(excess);
            }
            self.write(channel, &frame);
        }
    }

    /// Writes one frame of a delivery whose payload has `left` bytes to go; how many of them it takes.
    /// The caller pushes those.
    pub(crate) fn begin_transfer(
        &mut self,
        channel: u16,
        transfer: &mut Transfer,
        left: usize,
    ) -> usize {
        self.sent_at = self.now;
        let out = self.output.tail();
        let start = frame::begin(out, frame::FrameType::Amqp, channel);
        let body_at = out.len();
        transfer.write(out);
        // A peer that takes frames of 512 bytes has room: a transfer's own fields are fewer than 100.
        let room = (self.bytes_max as usize).saturating_sub(out.len() - start).max(1);
        if left > room {
            out.truncate(body_at);
            transfer.more = true;
            transfer.write(out);
        }
        let part = left.min(room);
        frame::end(out, start, part);
        part
    }

    pub(crate) fn push(&mut self, payload: Bytes) {
        self.output.push(payload);
    }

    pub(crate) fn write_heartbeat(&mut self) {
        const EMPTY_FRAME: [u8; 8] = [0, 0, 0, 8, 2, 0, 0, 0];
        self.output.tail().extend_from_slice(&EMPTY_FRAME);
        self.sent_at = self.now;
    }

    /// Whether a frame did not fit.
    pub(crate) fn has_overflowed(&self) -> bool {
        self.overflow.is_some()
    }

    /// The connection is over: what does not fit from now on is owed to nobody.
    pub(crate) fn end(&mut self) {
        self.is_over = true;
    }

    /// Why the connection is over, once.
    pub(crate) fn take_overflow(&mut self) -> Option<Error> {
        self.overflow.take()
    }

    /// Bytes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.output.remaining()
    }
}
