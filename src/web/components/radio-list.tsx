/** Owns a choice among options that need a sentence each, one below the other. */
import { Radio } from '@mantine/core';
import type { ReactNode } from 'react';

export interface RadioChoice<V> {
  readonly value: V;
  readonly label: ReactNode;
  readonly about?: string;
}

export function RadioList<V extends string>({
  label,
  choices,
  value,
  onChange,
}: {
  readonly label: string;
  readonly choices: readonly RadioChoice<V>[];
  readonly value: V;
  readonly onChange: (value: V) => void;
}): ReactNode {
  return (
    <Radio.Group label={label} value={value} onChange={onChange}>
      <div className="stack tight">
        {choices.map((choice) => (
          <Radio key={choice.value} value={choice.value} label={choice.label} description={choice.about} />
        ))}
      </div>
    </Radio.Group>
  );
}
