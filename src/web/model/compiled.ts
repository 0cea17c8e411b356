/** Owns the preview of what a group becomes on a device: the very text that an agent loads. */
import { compile } from '../../nft/compile.ts';
import { parseInterfaceName } from '../../nft/names.ts';
import { plan } from '../../nft/plan.ts';
import { printCommands } from '../../nft/print.ts';
import { canonicalize } from '../../policy/canonicalize.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { parseGroupId } from '../../policy/ids.ts';
import type { Content } from './draft.ts';

/** Stands for the driver interface, which every device names for itself. */
export const exampleInterface = 'wg0';

export function compilePolicy(policy: EffectivePolicy): string {
  const ruleset = compile(canonicalize(policy), {
    interface: parseInterfaceName(exampleInterface),
    neighbourDiscovery: false,
  });
  const update = plan(undefined, ruleset);
  return update.kind === 'update' ? printCommands([...update.stage, ...update.flip]) : '';
}

/** A group on a device that has no other. */
export const compileContent = (content: Content): string =>
  compilePolicy({
    source: 'list',
    groups: [
      {
        id: parseGroupId('00000000-0000-4000-8000-000000000000'),
        name: content.group_name,
        inbound: content.inbound_rules,
        outbound: content.outbound_rules,
      },
    ],
  });
