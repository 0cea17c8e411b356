/** Owns the warning about labels that no device has: what names one admits no device, or applies to none. */
import { useMemo, type ReactNode } from 'react';
import { labelsIn, unknownLabels } from '../../client/words/unknown-labels.ts';
import { countLabels } from '../model/labels.ts';
import { useSnapshot } from '../state/organization.ts';

export function UnknownLabels({
  labels,
  areKnownToGroups = false,
}: {
  readonly labels: Iterable<string>;
  /** A label that a group names is known before the first device has it. */
  readonly areKnownToGroups?: boolean;
}): ReactNode {
  const { devices, groups } = useSnapshot();
  const known = useMemo(
    () => new Set([...countLabels(devices).keys(), ...(areKnownToGroups ? labelsIn(groups) : [])]),
    [devices, groups, areKnownToGroups],
  );
  return unknownLabels(labels, known).map(({ label, near }) => (
    <p key={label} className="note note-warn" role="status">
      No device has label “{label}”{near === undefined ? ' yet.' : `. Did you mean “${near}”?`}
    </p>
  ));
}
