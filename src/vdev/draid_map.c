/*
 * The permutations of dRAID (spec 02 14.2). Which device holds which column changes from slice to
 * slice, so that a lost device is rebuilt from, and onto, all others alike. The order is the
 * format: for each number of devices there is one table, shuffled by a fixed generator from a fixed
 * seed.
 */
#include <errno.h>
#include <stdlib.h>

#include "vdev/draid_impl.h"

static const uint64_t seeds[DRAID_CHILDREN_MAX + 1] = {
    0,
    0,
    0x89ef3dabbcc7de37ull,
    0x89a57f3de98121b4ull,
    0xc9ea9ec82340c885ull,
    0xf46733b7f4d47dfdull,
    0x88c3c62d8585b362ull,
    0x3a65d809b4d1b9d5ull,
    0xe98930e3c5d2e90aull,
    0x5a5430036b982ccbull,
    0x92bf389e9eadac74ull,
    0x74ccebf1dcf3ae80ull,
    0x8847e41a1a9f5671ull,
    0x7481b56debf0e637ull,
    0x559b8c44065f8967ull,
    0x34c49545a2ee7f01ull,
    0xb85f4fa81a7698f7ull,
    0x6353e47b7e47aba0ull,
    0xaa549746b1cbb81cull,
    0x892e343f2f31d690ull,
    0x76914824db98cc3full,
    0x4b3cbabf9cfb1d0full,
    0xf45c77abb4f035d4ull,
    0x5e18bd7f3fd4baf4ull,
    0xa7b3a4d285d6503bull,
    0x56ac7dd967521f5aull,
    0x3a42dfda4eb880f7ull,
    0xd200d2fc6b54bf60ull,
    0xc52605bbd486c546ull,
    0xc761779e63cd762full,
    0xca577b1e07f85ca5ull,
    0xfd50a593c518b3d4ull,
    0xc6c87ba5b042650bull,
    0xc3880d0c9d458304ull,
    0xe920927e4d8b2c97ull,
    0x8da7fcda87bde316ull,
    0xcf09937491514a29ull,
    0x9b5abbf345cbd7ccull,
    0x506312a44668d6a9ull,
    0x71659ede62b4755full,
    0xa7fde73fb74cf2d7ull,
    0x19e8b461a1dea1d3ull,
    0x031c9b868cc3e976ull,
    0xbaa5125faa781854ull,
    0x4ed55052550d721bull,
    0x0fd63ddbdff90677ull,
    0x36d66546de7fdd6full,
    0x99f997e7eafb69d7ull,
    0xbecd9c2571312c5dull,
    0xd97371329e488a32ull,
    0x30e9b136670749eeull,
    0x11ad6bc8f47aaeb4ull,
    0x68e445300af432c1ull,
    0x910fb561657ea98cull,
    0xd619693d8ce5e7a5ull,
    0x24e281f564dbb60aull,
    0x947a7d3bdaab44c5ull,
    0x2d44fec9c093e0deull,
    0x87743c272d29bb4cull,
    0x96aa3b6f67f5d923ull,
    0x94a4f1faf520b0d3ull,
    0xb13ed3a272f711a2ull,
    0x3b1b11805fa4a64aull,
    0x4c74caad9172ba71ull,
    0x035ff643923dd29eull,
    0x768e9171b11abd3cull,
    0x75880e6f78a13dddull,
    0x910b9714f698a877ull,
    0x87f5db6f9fdcf5c7ull,
    0x836d4968fbaa3706ull,
    0xc567d73a036421abull,
    0x619df40f240b8fedull,
    0x42763a680d5bed8eull,
    0x5866f064b3230431ull,
    0x9fa08548b1621a44ull,
    0xb6053078ce0fc303ull,
    0x4a7aad7bf3890923ull,
    0xe165613fd75b5a53ull,
    0x3ff154ac878163a6ull,
    0x24b93ade0aa8a532ull,
    0xc18e2d14cd9bb554ull,
    0x98cc78302feb58b6ull,
    0xc6c5fd5a2abc0543ull,
    0xa7962f514acbba21ull,
    0xba02545069ddc6dcull,
    0x447c73192c35073eull,
    0x48beef9e2d42b0c2ull,
    0x4874cf98541a35e0ull,
    0xad4cf8333a31127aull,
    0x47ae4859d57888c1ull,
    0x06f7723cfe5d1891ull,
    0xd4e44218d660576dull,
    0x7066702b0d5be1f2ull,
    0x011209b4f9e11fb9ull,
    0x47ffba30a0b35708ull,
    0x1a95a6ac4538aaa8ull,
    0xbda2b239bb2008ebull,
    0x7ffa0bea90355c6cull,
    0x1d56ba34be426795ull,
    0x0aa89d45c502e93dull,
    0x54369449f6857774ull,
    0xf7d4dd8445b46765ull,
    0xfa8866312f169469ull,
    0xd8a5aea08aef3ff9ull,
    0x66bcd2c3d5f9ef0eull,
    0x3fb13a47a012ec81ull,
    0x43100f01c9e5e3caull,
    0xca09c50ccee2d054ull,
    0xd7176732ac503f9bull,
    0xed206e51f8d9422dull,
    0x17ead5dc6ba0dcd6ull,
    0x5f1dc21e38a969ebull,
    0xddaa973de33ec528ull,
    0x2a5eccd7735a3630ull,
    0xafcccee5c0b71446ull,
    0x8fa30c5e7b147e27ull,
    0x5afe0711fdfafd82ull,
    0x533a6090238afd4cull,
    0x90cf11b595e39a84ull,
    0x0d61a3b809444009ull,
    0x7f34da0f54b0d114ull,
    0xa52258d5b72f6551ull,
    0xc1de54d7672878dbull,
    0x1d03354316a414abull,
    0xcebdcc377665412cull,
    0x4ddd4c04b1a12344ull,
    0x64fc8f94e3973658ull,
    0x68765f78034a334eull,
    0xaf36b871a303e816ull,
    0x2a4cbf73866c3a28ull,
    0x9cb128aacdcd3b2full,
    0x5511d41c55869124ull,
    0x42f92461937f284aull,
    0xe2d89a1cf6f1f287ull,
    0xdc631a038956200eull,
    0xb2e5ac222cd236beull,
    0xbc7d8236655d88e7ull,
    0x073e02d88d2d8e75ull,
    0x3ddb9c3873166be0ull,
    0x7d3b1a845420e1b5ull,
    0x60102308aa7b2a6cull,
    0xdb22bb2f9eb894aaull,
    0xd853f879a13b1606ull,
    0x001620a03f804b1dull,
    0xfdb52dda76fbf667ull,
    0xa9160110f66e24ffull,
    0x77306a30379ae03bull,
    0x14f5985d2752319dull,
    0xa4b8ff11de7863f8ull,
    0x44b345426455c1b3ull,
    0x272677826049b46cull,
    0x2f9216e2cd74fe40ull,
    0x706ae3e763ad8771ull,
    0xf7fd345307c2480eull,
    0x6e94e3d26b3139ebull,
    0x5458bbfbb781fcbaull,
    0xa80e2afeccd93b33ull,
    0x1e4ccbb22796cf9dull,
    0x8fba4b676aaa3663ull,
    0xf82b843814b315faull,
    0x7f21e920ecf753a3ull,
    0x48bb8ea2c4caa620ull,
    0x5cdb652b4952c91bull,
    0x6ac1ba6f78c06cd4ull,
    0x9faf5f9ca2669a56ull,
    0xaa57e9383eb01194ull,
    0x896967bf495c34d2ull,
    0xdfad5f05de225f1bull,
    0xfd299a99f9f2abddull,
    0xdda239e798fe9fd4ull,
    0x5fca670414a32c3eull,
    0x1bb8934314b087deull,
    0xd96394b4b082200dull,
    0xb612a7735b1c8cbcull,
    0x28e7430fe5875fe1ull,
    0x5038e89efdd981b9ull,
    0x075fd78f1d14db7cull,
    0xc50fafdb5021be15ull,
    0xe6dc7572ce7b91c7ull,
    0x21f7843e7beda537ull,
    0xc83385e20b43ec82ull,
    0xca818217dddb21fdull,
    0xe6035defea48f933ull,
    0x47262a4f953dac5aull,
    0xe24c7246260873eaull,
    0xeef6b57c9b58e9e1ull,
    0x2becd3346e386142ull,
    0x63c6207bdf3b40a3ull,
    0x3056ce8989767d4bull,
    0x91af61c307cee780ull,
    0xda359da225f6d54full,
    0x0a5f7a2a55607ba0ull,
    0x27bb75bf5224638aull,
    0x1ebfdb94630f5d0full,
    0x6eae5e51d9c5f6fbull,
    0x08d903b4daedc2e0ull,
    0xc722a2f7fa7cd686ull,
    0x8f71faf0e54e361dull,
    0x87f64695c91a54e7ull,
    0xc719cbac2c336b92ull,
    0xe7e647afaf771adeull,
    0x12d4b5c38ce8c946ull,
    0xf2e0cd4067bdc94aull,
    0x21b79f14d6d947d3ull,
    0x515093f952f18cd6ull,
    0xd47b160a1b1022c8ull,
    0xc02fc96684715a16ull,
    0xef51e68efba72ed0ull,
    0x9e3be6e5448b4f33ull,
    0x81d446c6d5fec063ull,
    0xff215de8224e57d5ull,
    0xe2524d9ba8f69796ull,
    0xf6b28e26097b7e4bull,
    0x893a487f30ce1644ull,
    0x386566c3fc9871dfull,
    0x1e0ed78edf1f558aull,
    0xe3bc20c31e61f113ull,
    0xd6c3ad2e23021882ull,
    0xb4a9f95cf0f69c5aull,
    0x6e98ed6f6c38e82full,
    0x2e01edba33fddac7ull,
    0x559d02e1f5f57cccull,
    0xac18f5a916adcd8eull,
    0x15789fbaddb86f4bull,
    0xf4a9c36d5bc4c408ull,
    0xf640f90fd2727f44ull,
    0xb5313d390d61884aull,
    0x4bae6b3ce9160939ull,
    0x838c34480f1a66a1ull,
    0xb1c4a52c8e3d6060ull,
    0xe0f1110c6d0ed822ull,
    0x9f1a8ccdcea68d4bull,
    0x3261ed62223f3099ull,
    0xf2191e2311022d65ull,
    0xf102a395c2033abcull,
    0x11fe378f027906b6ull,
    0xf777f2c026b337aaull,
    0x1b04e9c2ee143f32ull,
    0x2fcec95266f9352cull,
    0xfe2b0e47e427dd85ull,
    0x72b49bf2225f6c6dull,
    0x50486b43df7df9c7ull,
    0x5192a3e53181c8abull,
    0xe9f5d8365296fd5eull,
    0xc740263f0301efa8ull,
    0x23cd0f2b5671e67dull,
    0x002ccc7e5cd41390ull,
    0x9aafb3c02544b31bull,
    0x72ba07a78b121999ull,
    0x3d784aa58edfc7b4ull,
    0xaab750424d8004afull,
    0x84403fcf8e6b5ca2ull,
    0x71eb7455ec98e207ull,
    0xd752b4f19301595bull,
    0xc4674129750499deull,
    0x9772baff5cd12ef5ull,
};

/* xoroshiro128++ with the rotations 17, 49, 28 and the shift 21. */
struct generator {
    uint64_t s0, s1;
};

static uint64_t rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static uint64_t next(struct generator *g)
{
    uint64_t out = rotate(g->s0 + g->s1, 17) + g->s0;

    g->s1 ^= g->s0;
    g->s0 = rotate(g->s0, 49) ^ g->s1 ^ g->s1 << 21;
    g->s1 = rotate(g->s1, 28);
    return out;
}

/* Each row is shuffled from the one before. */
static void shuffle(unsigned char *row, const unsigned char *before, unsigned n,
                    struct generator *g)
{
    for (unsigned i = 0; i < n; i++)
        row[i] = before ? before[i] : (unsigned char)i;
    for (unsigned j = n; j-- > 1;) {
        unsigned k = (unsigned)(next(g) % (j + 1));
        unsigned char held = row[j];
        row[j] = row[k];
        row[k] = held;
    }
}

int draid_map_new(struct draid_map *m, unsigned children)
{
    struct generator g = {0xd7a1d5eedull, seeds[children]};

    m->children = children;
    m->rows = children <= 31 ? 256 : 512;
    m->base = malloc((size_t)m->rows * children);
    if (!m->base)
        return -ENOMEM;
    for (unsigned r = 0; r < m->rows; r++) {
        unsigned char *row = m->base + (size_t)r * children;
        shuffle(row, r ? row - children : NULL, children, &g);
    }
    return 0;
}

unsigned draid_map_device(const struct draid_map *m, uint64_t slice, unsigned position)
{
    uint64_t u = slice % ((uint64_t)m->rows * m->children);
    const unsigned char *row = m->base + u / m->children * m->children;

    return (unsigned)((row[position] + u % m->children) % m->children);
}
