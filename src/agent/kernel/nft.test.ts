/** Proves that the fake packet filter keeps the promises of the port. */
import { FakeNft } from './fake-nft.fixture.ts';
import { nftContract } from './nft-contract.fixture.ts';

nftContract('the fake packet filter', async () => {
  const nft = new FakeNft();
  return { nft, close: async () => {} };
});
