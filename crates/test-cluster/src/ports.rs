//! Finds free loopback ports below the kernel's range for outgoing connections, so that a restarted process finds its
//! port free.

use std::net::TcpListener;

use crate::error::{Attempt, Error};

const RANGE: std::ops::Range<u16> = 15_000..32_000;
const TRIES: u32 = 200;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) etcd: u16,
    pub(crate) etcd_peer: u16,
    pub(crate) api_server: u16,
}

impl Ports {
    /// Chooses three unused ports; the seed differs between processes.
    pub(crate) fn choose(seed: u64) -> Result<Ports, Error> {
        let mut free = Vec::new();
        for step in 0..TRIES {
            let port = candidate(seed, step);
            if !free.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
                free.push(port);
            }
            if let [etcd, etcd_peer, api_server] = free[..] {
                return Ok(Ports { etcd, etcd_peer, api_server });
            }
        }
        Err(std::io::Error::from(std::io::ErrorKind::AddrInUse)).attempt(|| "find three free ports on loopback".into())
    }
}

/// Spreads consecutive seeds and steps over the range (Knuth's multiplicative hash).
fn candidate(seed: u64, step: u32) -> u16 {
    let mixed = seed.wrapping_add(u64::from(step)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    let size = u64::from(RANGE.end - RANGE.start);
    RANGE.start + u16::try_from(mixed % size).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_distinct_ports_below_the_outgoing_range() {
        let Ports { etcd, etcd_peer, api_server } = Ports::choose(7).unwrap();
        assert!(etcd != etcd_peer && etcd_peer != api_server && etcd != api_server);
        assert!([etcd, etcd_peer, api_server].iter().all(|port| RANGE.contains(port)));
    }

    #[test]
    fn ports_in_use_are_skipped() {
        let first = Ports::choose(99).unwrap();
        let _taken = TcpListener::bind(("127.0.0.1", first.etcd)).unwrap();
        assert_ne!(Ports::choose(99).unwrap().etcd, first.etcd);
    }
}
