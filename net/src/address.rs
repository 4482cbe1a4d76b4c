//! Socket addresses, to and from the kernel's form.
#![allow(unsafe_code)]

use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::{AF_INET, AF_INET6, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

/// An address of the kernel: IPv4 or IPv6.
pub(crate) fn to_std(storage: &sockaddr_storage) -> Option<SocketAddr> {
    match i32::from(storage.ss_family) {
        AF_INET => {
            // SAFETY: the family says that the storage holds a sockaddr_in, which is smaller and no more
            // strictly aligned.
            let v4 = unsafe { &*std::ptr::from_ref(storage).cast::<sockaddr_in>() };
            let ip = Ipv4Addr::from(v4.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
        }
        AF_INET6 => {
            // SAFETY: as above, with sockaddr_in6.
            let v6 = unsafe { &*std::ptr::from_ref(storage).cast::<sockaddr_in6>() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            let port = u16::from_be(v6.sin6_port);
            Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
        }
        _ => None,
    }
}

/// The kernel's form of an address, and its length.
pub(crate) fn to_kernel(address: SocketAddr) -> (sockaddr_storage, socklen_t) {
    // SAFETY: all zeros is a valid sockaddr_storage.
    let mut storage: sockaddr_storage = unsafe { zeroed() };
    let length = match address {
        SocketAddr::V4(v4) => {
            // SAFETY: the storage is larger than a sockaddr_in and aligned for every address.
            let out = unsafe { &mut *std::ptr::from_mut(&mut storage).cast::<sockaddr_in>() };
            out.sin_family = AF_INET as libc::sa_family_t;
            out.sin_port = v4.port().to_be();
            out.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
            size_of::<sockaddr_in>()
        }
        SocketAddr::V6(v6) => {
            // SAFETY: as above, with sockaddr_in6.
            let out = unsafe { &mut *std::ptr::from_mut(&mut storage).cast::<sockaddr_in6>() };
            out.sin6_family = AF_INET6 as libc::sa_family_t;
            out.sin6_port = v6.port().to_be();
            out.sin6_addr.s6_addr = v6.ip().octets();
            out.sin6_flowinfo = v6.flowinfo();
            out.sin6_scope_id = v6.scope_id();
            size_of::<sockaddr_in6>()
        }
    };
    (storage, length as socklen_t)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back_as_they_were() {
        for text in ["127.0.0.1:7117", "[::1]:1", "[fe80::1%3]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(to_std(&to_kernel(address).0), Some(address));
        }
    }
}
