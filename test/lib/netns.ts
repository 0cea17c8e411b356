/** Owns the way of tests to network namespaces: they are the lab's. */
import { bringUp, untilReady, type Namespace, type VethEnd } from '../../dev/lab/namespace.ts';

export { CommandFailed, Namespace, type Outcome } from '../../dev/lab/namespace.ts';

/** A cable between two namespaces, both ends up, addressed and ready, without waiting for duplicate address detection. */
export async function connect(a: VethEnd, b: VethEnd): Promise<void> {
  await a.namespace.run([
    'ip',
    'link',
    'add',
    a.name,
    'type',
    'veth',
    'peer',
    'name',
    b.name,
    'netns',
    String(b.namespace.pid),
  ]);
  await Promise.all([a, b].map(bringUp));
  await Promise.all([a, b].map(untilReady));
}

/** The hardware address of an interface. */
export async function hardwareAddress(namespace: Namespace, name: string): Promise<string> {
  const { stdout } = await namespace.run(['cat', `/sys/class/net/${name}/address`]);
  return stdout.trim();
}
