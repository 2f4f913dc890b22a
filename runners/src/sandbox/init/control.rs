//! The control socket, which the launcher has as its standard input.

use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, recvmsg};

use super::plan::{Plan, Report};

/// The largest plan that is read; one with hundreds of mounts has some tens of kilobytes.
const MAX_PLAN: usize = 16 << 20;

/// The launcher's end of the control socket.
pub struct Control {
    socket: OwnedFd,
}

impl Control {
    /// Reads the plan and takes over the program's streams.
    pub fn receive() -> io::Result<(Self, Plan, Vec<OwnedFd>)> {
        let socket = rustix::io::fcntl_dupfd_cloexec(io::stdin(), 3)?;
        let mut length = [0; 4];
        let streams = receive_with_descriptors(socket.as_fd(), &mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_PLAN {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut text = vec![0; length];
        receive_all(socket.as_fd(), &mut text)?;
        let plan = serde_json::from_slice(&text)?;
        Ok((Self { socket }, plan, streams))
    }

    pub fn tell(&self, report: &Report) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        let mut rest = &line[..];
        while !rest.is_empty() {
            let sent = rustix::net::send(&self.socket, rest, SendFlags::NOSIGNAL)?;
            rest = &rest[sent..];
        }
        Ok(())
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn receive_with_descriptors(socket: BorrowedFd<'_>, length: &mut [u8; 4]) -> io::Result<Vec<OwnedFd>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = recvmsg(
        socket,
        &mut [IoSliceMut::new(&mut length[..])],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL,
    )?;
    if received.bytes != length.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    Ok(descriptors)
}

fn receive_all(socket: BorrowedFd<'_>, text: &mut [u8]) -> io::Result<()> {
    let mut filled = 0;
    while filled < text.len() {
        match rustix::io::read(socket, &mut text[filled..]) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
