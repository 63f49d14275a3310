//! Tables 1 and 2 of "Improve Web Proxy Performance by Alleviating Disk I/O Overhead" (Chang and
//! Lai): the system calls of Squid-2.4 and of UNIFIED in whole tests.

/// The calls of a test at one rate.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// Requests per second.
    pub rate: u32,
    /// Opens of Squid.
    pub opens: f64,
    /// Closes of Squid; they differ from opens by one at most.
    pub closes: f64,
    /// Deletes of Squid.
    pub deletes: f64,
    /// Reads of Squid and of UNIFIED.
    pub reads: [f64; 2],
    /// Writes of Squid and of UNIFIED.
    pub writes: [f64; 2],
}

const fn row(rate: u32, files: [f64; 3], reads: [f64; 2], writes: [f64; 2]) -> Counted {
    let [opens, closes, deletes] = files;
    Counted { rate, opens, closes, deletes, reads, writes }
}

/// The calls of the low-end test.
pub const LOW_END: [Counted; 7] = [
    row(
        10,
        [1_830_968.0, 1_830_967.0, 1_002_896.0],
        [534_704.0, 255_763.0],
        [4_318_921.0, 1_575_083.0],
    ),
    row(
        20,
        [2_108_715.0, 2_108_715.0, 1_182_368.0],
        [976_325.0, 468_838.0],
        [4_588_152.0, 1_691_836.0],
    ),
    row(
        30,
        [2_400_413.0, 2_400_413.0, 1_204_749.0],
        [1_208_030.0, 618_340.0],
        [4_877_634.0, 1_781_951.0],
    ),
    row(
        40,
        [2_894_680.0, 2_894_680.0, 1_409_723.0],
        [1_588_713.0, 808_123.0],
        [5_281_763.0, 1_987_364.0],
    ),
    row(
        50,
        [3_378_287.0, 3_378_287.0, 1_659_489.0],
        [1_931_362.0, 996_848.0],
        [6_520_977.0, 2_381_317.0],
    ),
    row(
        100,
        [4_726_937.0, 4_726_937.0, 2_206_019.0],
        [3_454_337.0, 1_796_287.0],
        [8_027_956.0, 2_930_528.0],
    ),
    row(
        120,
        [5_224_545.0, 5_224_545.0, 2_698_164.0],
        [3_806_434.0, 1_906_340.0],
        [9_781_763.0, 3_573_648.0],
    ),
];

/// Those of the high-end test.
pub const HIGH_END: [Counted; 6] = [
    row(
        50,
        [3_220_714.0, 3_220_714.0, 1_691_382.0],
        [1_844_889.0, 809_374.0],
        [6_608_094.0, 2_411_219.0],
    ),
    row(
        100,
        [4_627_888.0, 4_627_888.0, 2_281_725.0],
        [3_379_529.0, 1_622_303.0],
        [8_228_432.0, 3_005_464.0],
    ),
    row(
        150,
        [6_080_883.0, 6_080_883.0, 3_235_120.0],
        [4_305_185.0, 2_124_848.0],
        [10_814_209.0, 3_955_914.0],
    ),
    row(
        170,
        [6_683_492.0, 6_683_492.0, 3_697_432.0],
        [4_514_545.0, 2_193_743.0],
        [12_871_436.0, 4_638_126.0],
    ),
    row(
        200,
        [7_477_177.0, 7_477_177.0, 4_404_863.0],
        [4_705_627.0, 2_350_592.0],
        [14_005_715.0, 5_126_464.0],
    ),
    row(
        250,
        [8_800_143.0, 8_800_143.0, 5_718_264.0],
        [5_683_479.0, 2_748_622.0],
        [19_635_487.0, 7_256_498.0],
    ),
];
