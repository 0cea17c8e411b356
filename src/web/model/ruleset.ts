/** Owns the nftables text of a policy for display: it is the compiler's own output. */
import type { DeviceReport } from '../../api/device.ts';
import { surroundingsOf } from '../../api/enforcement/surroundings.ts';
import { compile } from '../../nft/compile/compile.ts';
import { parseInterfaceName, type InterfaceName } from '../../nft/names.ts';
import { plan } from '../../nft/plan/plan.ts';
import { printCommands } from '../../nft/print.ts';
import { canonicalize, canonicalizeNames } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { exampleInterface } from './device-policy.ts';

/** What an agent reported is anybody's text. */
function interfaceOf(name: string | undefined): InterfaceName {
  try {
    return parseInterfaceName(name);
  } catch {
    return parseInterfaceName(exampleInterface);
  }
}

/** `report` is what the device's agent said, where one has. */
export function compilePolicy(policy: EffectivePolicy, report?: DeviceReport): string {
  const { serverAccess, containers } = surroundingsOf(report);
  const ruleset = compile(canonicalizeNames(policy) ?? canonicalize(policy), {
    interface: interfaceOf(report?.interface),
    neighbourDiscovery: false,
    serverAccess,
    forwarding: containers === 'guard' ? 'on' : undefined,
  });
  const update = plan(undefined, ruleset);
  return update.kind === 'update' ? printCommands([...update.stage, ...update.flip]) : '';
}
