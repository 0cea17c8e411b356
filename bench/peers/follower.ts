/** Owns one device of the measured fleet: a namespace with its own nft and netlink session, and a source and an enforcer as the agent's. */
import { Enforcer } from '../../src/agent/kernel/enforcer.ts';
import { RealNft } from '../../src/agent/kernel/real-nft.ts';
import type { DesiredPolicy } from '../../src/agent/loop/desired-policy.ts';
import { desiredFrom } from '../../src/agent/loop/follow-source.ts';
import { NetlinkChannel } from '../../src/agent/netlink/channel.ts';
import { InformerSource } from '../../src/agent/source/informer-policy-source.ts';
import { systemClock } from '../../src/client/clock.ts';
import type { Client } from '../../src/client/http.ts';
import { parseInterfaceName } from '../../src/nft/names.ts';
import { parseDeviceId } from '../../src/policy/ids.ts';
import { Namespace } from '../../test/lib/netns.ts';

/** Milliseconds by the clock that all processes of the machine share. */
export const sharedClock = (): number => Number(process.hrtime.bigint()) / 1_000_000;

/** One device: what the server says of it goes into the kernel of its namespace. */
export class Follower {
  readonly #namespace: Namespace;
  readonly #channel: NetlinkChannel;
  readonly #nft: RealNft;
  readonly #enforcer: Enforcer;
  readonly #source: InformerSource;
  readonly #end = new AbortController();
  readonly #running: Promise<void>;
  readonly #onReached: (follower: Follower) => void;
  #desired: DesiredPolicy | undefined;
  #working: Promise<void> | undefined;
  #isWorking = false;
  #again = false;
  /** The revision that the kernel reflects, and since when. */
  revision = 0;
  since = 0;
  fault: unknown;

  /** `onReached` is called when the kernel reflects another revision, and when something fails. */
  constructor(
    namespace: Namespace,
    folder: string,
    place: { client: Client; organization: string; device: string; onReached: (follower: Follower) => void },
  ) {
    this.#namespace = namespace;
    this.#channel = new NetlinkChannel({ clock: systemClock, prefix: namespace.inside([]) });
    this.#nft = new RealNft({
      clock: systemClock,
      scratch: folder,
      prefix: namespace.inside([]),
      netlink: this.#channel,
    });
    this.#enforcer = new Enforcer({ nft: this.#nft, random: Math.random });
    const { client, organization, device, onReached } = place;
    this.#onReached = onReached;
    const onFault = (fault: unknown): void => this.#fail(fault);
    this.#source = new InformerSource({ client, organization, device: parseDeviceId(device), onFault });
    this.#source.onChange(() => {
      this.#again = true;
      if (!this.#isWorking) this.#working = this.#work();
    });
    this.#running = this.#source.run({ signal: this.#end.signal });
  }

  async #work(): Promise<void> {
    this.#isWorking = true;
    try {
      while (this.#again) {
        this.#again = false;
        const knowledge = this.#source.read();
        if (knowledge.kind !== 'known') continue;
        const before = this.#desired?.canonical;
        this.#desired = desiredFrom(knowledge, this.#desired, { at: Date.now(), isolationsAt: Date.now() });
        const { canonical: policy, named, membership } = this.#desired;
        const target = { policy, named, membership, interface: parseInterfaceName('rf0'), neighbourDiscovery: false };
        if (policy !== before) await this.#enforcer.apply(target);
        this.revision = knowledge.revision;
        this.since = sharedClock();
        this.#onReached(this);
      }
    } catch (error) {
      this.#fail(error);
    } finally {
      // In the same turn as the last look at `again`: a change cannot fall between.
      this.#isWorking = false;
    }
  }

  #fail(fault: unknown): void {
    this.fault = fault;
    this.#onReached(this);
  }

  /** Whether the kernel holds what was put in force. */
  async verify(): Promise<void> {
    const { findings } = await this.#enforcer.verify();
    if (findings.length > 0) throw new Error(`a kernel holds something else: ${JSON.stringify(findings)}`);
  }

  async close(): Promise<void> {
    this.#end.abort();
    await this.#running.catch(() => {});
    await this.#working;
    await Promise.all([this.#nft.close(), this.#channel.close()]);
    await this.#namespace.close();
  }
}
