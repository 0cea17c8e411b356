/** Owns a choice among options that need a sentence each, one below the other. It uses the browser's own radio buttons. */
import { useId, type ReactNode } from 'react';

export interface RadioChoice<V> {
  readonly value: V;
  readonly label: ReactNode;
  readonly about?: ReactNode;
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
  const group = useId();
  return (
    <fieldset className="radio-list">
      <legend>{label}</legend>
      {choices.map((choice) => (
        <label key={choice.value}>
          <input
            type="radio"
            name={group}
            value={choice.value}
            checked={choice.value === value}
            onChange={() => onChange(choice.value)}
          />
          <span>
            {choice.label}
            {choice.about === undefined ? null : <span className="small dimmed radio-about">{choice.about}</span>}
          </span>
        </label>
      ))}
    </fieldset>
  );
}
