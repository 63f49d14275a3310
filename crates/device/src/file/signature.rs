//! Recognises foreign contents of a file or device by its first and last bytes, so that they are
//! not overwritten by mistake. Offsets and magic numbers are those of the named formats.

/// Number of bytes to read from the start. The farthest signature is the last one of ZFS's first
/// label.
pub const HEAD: usize = 256 << 10;

/// Number of bytes to read from the end. md RAID 0.90 lies up to 128 KiB before it.
pub const TAIL: usize = 128 << 10;

/// Formats with a fixed byte string at a fixed offset, the more specific ones first.
const FIXED: &[(&str, usize, &[u8])] = &[
    ("a LUKS volume", 0, b"LUKS\xba\xbe"),
    ("an LVM2 physical volume", 0, b"LABELONE"),
    ("an LVM2 physical volume", 512, b"LABELONE"),
    ("an LVM2 physical volume", 1024, b"LABELONE"),
    ("an LVM2 physical volume", 1536, b"LABELONE"),
    ("a member of an md RAID", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("a member of an md RAID", 4096, &[0xfc, 0x4e, 0x2b, 0xa9]),
    ("an XFS file system", 0, b"XFSB"),
    ("a btrfs file system", 65536 + 64, b"_BHRfS_M"),
    ("an f2fs file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    ("a bcachefs file system", 4096 + 24, BCACHEFS),
    ("a bcache device", 4096 + 24, BCACHE),
    ("a squashfs image", 0, b"hsqs"),
    ("an ISO 9660 image", 32769, b"CD001"),
    ("an NTFS file system", 3, b"NTFS    "),
    ("an exFAT file system", 3, b"EXFAT   "),
    ("a FAT file system", 82, b"FAT32   "),
    ("a FAT file system", 54, b"FAT1"),
    ("swap space", 4096 - 10, b"SWAPSPACE2"),
    ("swap space", 16384 - 10, b"SWAPSPACE2"),
    ("swap space", 65536 - 10, b"SWAPSPACE2"),
    ("a GPT partition table", 512, b"EFI PART"),
    ("a GPT partition table", 4096, b"EFI PART"),
];

const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";

/// Returns the name of the format, with its article, to which `head` (up to [`HEAD`] bytes from the
/// start) and `tail` (up to [`TAIL`] bytes before the end) belong; `None` if it is unknown.
pub fn identify(head: &[u8], tail: &[u8]) -> Option<&'static str> {
    let fixed = FIXED.iter().find(|(_, offset, magic)| at(head, *offset, magic));
    if let Some((name, ..)) = fixed {
        return Some(name);
    }
    if at(head, 1024 + 56, &[0x53, 0xef]) {
        return Some("an ext2/3/4 file system");
    }
    if is_zfs(head) {
        return Some("a member of a ZFS pool");
    }
    if is_md_at_end(tail) {
        return Some("a member of an md RAID");
    }
    if [512, 4096].iter().any(|back| before_end(tail, *back, b"EFI PART")) {
        return Some("a GPT partition table (its copy at the end)");
    }
    is_mbr(head).then_some("a partition table or boot sector (MBR)")
}

fn at(bytes: &[u8], offset: usize, magic: &[u8]) -> bool {
    bytes.get(offset..).is_some_and(|rest| rest.starts_with(magic))
}

fn before_end(tail: &[u8], back: usize, magic: &[u8]) -> bool {
    tail.len().checked_sub(back).is_some_and(|offset| at(tail, offset, magic))
}

/// Returns whether the second half of the first label has an uberblock (magic 0x00bab10c, in either
/// byte order).
fn is_zfs(head: &[u8]) -> bool {
    let magics = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];
    let uberblocks = (128 << 10..256 << 10).step_by(1024);
    uberblocks.into_iter().any(|offset| magics.iter().any(|magic| at(head, offset, magic)))
}

/// Returns whether there is a superblock of version 0.90 (in the last 64 to 128 KiB, on a 64 KiB
/// boundary) or 1.0 (at least 8 KiB before the end, on a 4 KiB boundary). The alignment of the end
/// is unknown, so every sector is checked.
fn is_md_at_end(tail: &[u8]) -> bool {
    let end = tail.len();
    let magic = [0xfc, 0x4e, 0x2b, 0xa9];
    let first = end % 512;
    (first..end).step_by(512).any(|offset| at(tail, offset, &magic))
}

/// Returns whether there are 0x55AA and at least one plausible partition entry: status 0 or 0x80, a
/// type, and a length.
fn is_mbr(head: &[u8]) -> bool {
    let entries = head.get(446..510).unwrap_or_default().chunks_exact(16);
    let mut sensible = entries.filter(|entry| {
        (entry[0] == 0 || entry[0] == 0x80) && entry[4] != 0 && entry[12..16] != [0; 4]
    });
    at(head, 510, &[0x55, 0xaa]) && sensible.next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(offset: usize, magic: &[u8]) -> Vec<u8> {
        let mut head = vec![0; HEAD];
        head[offset..offset + magic.len()].copy_from_slice(magic);
        head
    }

    #[test]
    fn every_fixed_signature_is_found_at_its_place_and_only_there() {
        for (name, offset, magic) in FIXED {
            assert_eq!(identify(&with(*offset, magic), &[]), Some(*name));
            assert_eq!(identify(&with(offset + 7, magic), &[]), None, "{name} at {offset} + 7");
            let cut = &with(*offset, magic)[..offset + magic.len() - 1];
            assert_eq!(identify(cut, &[]), None, "{name}, cut");
        }
    }

    #[test]
    fn ext_zfs_and_mbr_are_found() {
        assert_eq!(identify(&with(1080, &[0x53, 0xef]), &[]), Some("an ext2/3/4 file system"));
        for magic in [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()] {
            let head = with((128 << 10) + 31 * 1024, &magic);
            assert_eq!(identify(&head, &[]), Some("a member of a ZFS pool"));
        }
        let mut head = with(510, &[0x55, 0xaa]);
        assert_eq!(identify(&head, &[]), None, "0x55AA without a partition");
        head[446 + 4] = 0x83;
        head[446 + 12] = 8;
        assert!(identify(&head, &[]).is_some_and(|name| name.contains("MBR")));
    }

    #[test]
    fn signatures_at_the_end_are_found() {
        let mut tail = vec![0; TAIL];
        assert_eq!(identify(&[], &tail), None);
        tail[TAIL - 512..][..8].copy_from_slice(b"EFI PART");
        assert!(identify(&[], &tail).is_some_and(|name| name.contains("GPT")));
        for back in [64 << 10, 8 << 10, 12 << 10] {
            let mut tail = vec![0; TAIL];
            tail[TAIL - back..][..4].copy_from_slice(&[0xfc, 0x4e, 0x2b, 0xa9]);
            assert_eq!(identify(&[], &tail), Some("a member of an md RAID"), "{back} before");
        }
    }

    #[test]
    fn blank_short_and_arbitrary_bytes_are_nothing() {
        assert_eq!(identify(&[], &[]), None);
        assert_eq!(identify(&vec![0; HEAD], &vec![0; TAIL]), None);
        let text: Vec<u8> =
            b"nothing anybody formatted ".iter().copied().cycle().take(HEAD).collect();
        assert_eq!(identify(&text, &text[..TAIL]), None);
    }
}
