/** Owns the fields that take labels, devices and addresses as chips, with suggestions from the fleet, and the warning about labels that no device has. */
import { Pill, TagsInput } from '@mantine/core';
import { useState, useMemo, type ReactNode } from 'react';
import type { Device } from '../../api/device.ts';
import { allDevicesChip, deviceChip, labelChip, countLabels, splitLabels, type DeviceNames } from '../model/far-end.ts';
import { plural } from '../../client/words/number.ts';
import { useAddressOwners, useDeviceNames, useNames, useSnapshot } from '../state/organization.ts';
import { labelsIn, unknownLabels } from '../../client/words/unknown-labels.ts';

/** What was pasted may hold several; spaces alone part nothing, because they may stand around a dash. */
const splitChips = (texts: readonly string[]): readonly string[] =>
  texts.flatMap((text) => text.split(/[,;\n]/).map((part) => part.trim())).filter((part) => part !== '');

const shownSuggestions = 30;

/** What a chip says beyond its text: whose address it is, or that its device is gone. */
function ChipText({ chip }: { readonly chip: string }): ReactNode {
  const names = useDeviceNames();
  const owner = useAddressOwners().get(chip);
  const device = /^device:(.*)$/i.exec(chip)?.[1];
  if (device !== undefined && names.isGone(names.idOf(device))) {
    return (
      <>
        device …{device.slice(-8)} <em className="fault">gone</em>
      </>
    );
  }
  return owner === undefined ? (
    chip
  ) : (
    <>
      {chip} <span className="dimmed">{owner}</span>
    </>
  );
}

/** Its address; where the chip has its id, because the name could mean another device, also its name and user. */
function deviceNote(
  { id, hostname, tunnel_ip, user_id }: Device,
  names: DeviceNames,
  userOf: (userId: string) => string,
): string {
  const address = tunnel_ip || 'no address';
  return names.nameOf(id) === id ? [hostname || 'no name', userOf(user_id), address].join(' · ') : address;
}

/** Suggestions, each with what it currently matches. */
function useSuggestions(wanted: 'all' | 'labels' | 'none'): ReadonlyMap<string, string> {
  const { devices } = useSnapshot();
  const names = useDeviceNames();
  const userOf = useNames();
  if (wanted === 'none') return new Map();
  // The narrowest first: a rule should admit no more than it must.
  const labels = [...countLabels(devices)]
    .toSorted(([, a], [, b]) => a - b)
    .map(([label, count]) => [labelChip([label]), plural(count, 'device')] as const);
  const everyone = [allDevicesChip, plural(devices.length, 'device')] as const;
  const single =
    wanted === 'labels'
      ? []
      : devices.map((device) => [deviceChip(names.nameOf(device.id)), deviceNote(device, names, userOf)] as const);
  return new Map([...labels, everyone, ...single]);
}

export function FarEndInput({
  name,
  label,
  description,
  chips,
  onChange,
  error,
  suggest,
  placeholder,
}: {
  /** For who cannot see it, where there is no visible label. */
  readonly name?: string;
  readonly label?: string;
  readonly description?: string;
  readonly chips: readonly string[];
  readonly onChange: (chips: readonly string[]) => void;
  readonly error: string | undefined;
  readonly suggest: 'all' | 'labels';
  readonly placeholder: string;
}): ReactNode {
  // Ten thousand devices are suggested in the field that has the focus, and in no other.
  const [focused, setFocused] = useState(false);
  const [typed, setTyped] = useState('');
  const suggestions = useSuggestions(focused ? suggest : 'none');
  return (
    <TagsInput
      aria-label={name}
      label={label}
      description={description}
      placeholder={chips.length === 0 ? placeholder : ''}
      data={[...suggestions.keys()]}
      limit={shownSuggestions}
      searchValue={typed}
      onSearchChange={setTyped}
      // Open only while the user types, so that it does not cover the text below the field.
      dropdownOpened={focused && typed !== ''}
      onFocus={() => setFocused(true)}
      onBlur={() => setFocused(false)}
      renderOption={({ option }) => (
        <span className="row between grow">
          <span className="clip">{option.value}</span>
          <span className="small dimmed">{suggestions.get(option.value)}</span>
        </span>
      )}
      renderPill={({ value, onRemove, disabled }) => (
        <Pill withRemoveButton={disabled !== true} {...(onRemove && { onRemove })}>
          <ChipText chip={value ?? ''} />
        </Pill>
      )}
      value={[...chips]}
      onChange={(texts) => onChange(splitChips(texts))}
      splitChars={[',', ';']}
      acceptValueOnBlur
      error={error}
    />
  );
}

export function LabelInput({
  label,
  description,
  labels,
  onChange,
  error,
  disabled = false,
}: {
  readonly label: string;
  readonly description?: string;
  readonly labels: readonly string[];
  readonly onChange: (labels: readonly string[]) => void;
  readonly error: string | undefined;
  readonly disabled?: boolean;
}): ReactNode {
  const { devices } = useSnapshot();
  const [typed, setTyped] = useState('');
  const counts = useMemo(() => countLabels(devices), [devices]);
  return (
    <TagsInput
      label={label}
      description={description}
      placeholder={labels.length === 0 ? 'app, prod …' : ''}
      data={[...counts.keys()]}
      limit={30}
      searchValue={typed}
      onSearchChange={setTyped}
      dropdownOpened={typed !== ''}
      renderOption={({ option }) => (
        <span className="row between grow">
          {option.value}
          <span className="small dimmed">{plural(counts.get(option.value) ?? 0, 'device')}</span>
        </span>
      )}
      value={[...labels]}
      onChange={(texts) => onChange(splitLabels(texts))}
      splitChars={[',', ';', ' ']}
      acceptValueOnBlur
      error={error}
      disabled={disabled}
    />
  );
}

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
