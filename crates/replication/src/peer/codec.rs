//! Protobuf over gRPC, as tonic's own codec does it, but a message's size is reserved before it is
//! encoded: entries of tens of KiB would otherwise be copied again and again as the buffer grows.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Bytes gathered before they are handed to HTTP/2.
const YIELD_BYTES: usize = 64 << 10;
/// Small messages share a buffer of this size.
const BUFFER_BYTES: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct PeerCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for PeerCodec<T, U> {
    fn default() -> PeerCodec<T, U> {
        PeerCodec(PhantomData)
    }
}

impl<T, U> Codec for PeerCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = PeerEncoder<T>;
    type Decoder = PeerDecoder<U>;

    fn encoder(&mut self) -> PeerEncoder<T> {
        PeerEncoder(PhantomData)
    }

    fn decoder(&mut self) -> PeerDecoder<U> {
        PeerDecoder(PhantomData)
    }
}

#[derive(Debug)]
pub(crate) struct PeerEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for PeerEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buf.reserve(item.encoded_len());
        item.encode_raw(buf);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}

#[derive(Debug)]
pub(crate) struct PeerDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for PeerDecoder<U> {
    type Item = U;
    type Error = Status;

    /// Byte fields share the received buffer.
    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        U::decode(buf)
            .map(Some)
            .map_err(|error| Status::invalid_argument(format!("cannot be decoded: {error}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}
