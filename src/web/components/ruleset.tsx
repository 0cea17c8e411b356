/** Owns the nftables text on a page. The compiler loads on demand. */
import { useEffect, useState, type ReactNode } from 'react';
import type { DeviceReport } from '../../api/device.ts';
import type { EffectivePolicy } from '../../policy/effective.ts';
import { onDemand } from '../state/load-ahead.ts';

const loadCompiler = onDemand(() => import('../model/ruleset.ts'));

export function Compiled({
  policy,
  report,
}: {
  readonly policy: EffectivePolicy;
  /** What the device's agent said, where one has. */
  readonly report?: DeviceReport | undefined;
}): ReactNode {
  const [text, setText] = useState<string>();
  useEffect(() => {
    let current = true;
    void loadCompiler().then(({ compilePolicy }) => {
      if (current) setText(compilePolicy(policy, report));
    });
    return () => {
      current = false;
    };
  }, [policy, report]);
  return (
    <pre className="code code-tall" tabIndex={0} aria-label="nftables text">
      {text ?? 'Compiling…'}
    </pre>
  );
}
