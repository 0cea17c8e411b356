/** Owns the field for the devices that try a change: labels as chips, each with how many devices carry it. */
import { useMemo, type ReactNode } from 'react';
import { labelsIn } from '../../client/words/unknown-labels.ts';
import { devicesNamed } from '../../organization/of-records.ts';
import type { Selector } from '../../policy/rule.ts';
import { UnknownLabels } from '../components/unknown-labels.tsx';
import { FarEndInput } from '../group/far-end-input.tsx';
import { misspelt, readSelectorChip, selectorChip } from '../model/far-end.ts';
import { labelFault } from '../model/labels.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot } from '../state/organization.ts';

/** A chip as the server reads it; a bare word is a label. */
const selectorOf = (chip: string): Selector | undefined => readSelectorChip(chip) ?? readSelectorChip(`label:${chip}`);

/** What is wrong with the chips; undefined where they can be sent. */
function faultIn(chips: readonly string[]): string | undefined {
  for (const chip of chips) {
    const near = misspelt(chip);
    if (near !== undefined) return near;
    const selector = selectorOf(chip);
    if (selector === undefined || 'all_devices' in selector) continue;
    const fault = labelFault(selector.labels);
    if (fault !== undefined) return fault;
  }
  return undefined;
}

/** The chips as the text of a scope, such as `label:canary,label:edge+prod`; undefined while they are none. */
export const scopeText = (chips: readonly string[]): string | undefined =>
  chips.length === 0 || faultIn(chips) !== undefined
    ? undefined
    : chips.map((chip) => selectorChip(selectorOf(chip) ?? { labels: [chip] })).join(',');

export function ScopeInput({
  label,
  description,
  chips,
  onChange,
}: {
  readonly label: string;
  readonly description: string;
  readonly chips: readonly string[];
  readonly onChange: (chips: readonly string[]) => void;
}): ReactNode {
  const { devices } = useSnapshot();
  const selectors = useMemo(() => chips.flatMap((chip) => selectorOf(chip) ?? []), [chips]);
  const count = useMemo(() => devicesNamed(selectors, devices).length, [selectors, devices]);
  return (
    <div className="stack tight">
      <FarEndInput
        label={label}
        description={description}
        placeholder="label:canary"
        suggest="labels"
        chips={chips}
        onChange={onChange}
        error={faultIn(chips)}
      />
      {chips.length === 0 ? null : (
        <p className="small dimmed" role="status">
          {plural(count, 'device')} of the organization {count === 1 ? 'has' : 'have'} such a label.
        </p>
      )}
      <UnknownLabels labels={labelsIn([{ applies_to: selectors }])} />
    </div>
  );
}
