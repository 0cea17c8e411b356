/** Owns the input for labels: chips, with suggestions and how many devices carry each. */
import { TagsInput } from '@mantine/core';
import { useMemo, useState, type ReactNode } from 'react';
import { countLabels, splitLabels } from '../model/labels.ts';
import { plural } from '../model/rule-text.ts';
import { useSnapshot } from '../state/organization.ts';

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
