import { AppError } from '@ropewalk/kit';
import { releaseMemoryWhenIdle } from '@ropewalk/kit/idle-memory';
import { command } from '../../../framework/definition.ts';
import { expandHome } from '../../../lib/expand-home.ts';
import { logFlags, loggerOf } from '../logging.ts';
import { onEverySignal } from '../signals.ts';

const flags = {
  namespace: {
    type: 'string',
    short: 'n',
    env: 'CODER_OPERATOR_NAMESPACE',
    description: 'Namespace to watch for resources. Default: every namespace.',
  },
  kubeconfig: {
    type: 'string',
    env: 'KUBECONFIG',
    description: 'Kubeconfig file to connect with. Default: the service account of the pod.',
  },
  context: {
    type: 'string',
    env: 'CODER_OPERATOR_CONTEXT',
    description: 'Context of the kubeconfig file. Default: its current context.',
  },
  'poll-interval': {
    type: 'duration',
    env: 'CODER_OPERATOR_POLL_INTERVAL',
    default: '2s',
    description: 'How often to ask each server for its queue and its daemons.',
  },
  'default-image': {
    type: 'string',
    env: 'CODER_OPERATOR_DEFAULT_IMAGE',
    description: 'Image of CoderControlPlanes that do not set one. Default: each must set one.',
  },
  'keda-address': {
    type: 'string',
    env: 'CODER_OPERATOR_KEDA_ADDRESS',
    description: "Address to serve KEDA's external scaler on, such as 0.0.0.0:9666. Default: none.",
  },
  'external-metrics-address': {
    type: 'string',
    env: 'CODER_OPERATOR_EXTERNAL_METRICS_ADDRESS',
    description:
      "Address to serve the external metrics API on, such as 0.0.0.0:6443, for HorizontalPodAutoscalers. The cluster's " +
      'APIService v1beta1.external.metrics.k8s.io must point to it. Default: none.',
  },
  'external-metrics-cert-file': {
    type: 'string',
    env: 'CODER_OPERATOR_EXTERNAL_METRICS_CERT_FILE',
    description:
      'Certificate of the external metrics API, as PEM. Default: the operator creates one, and stores it in the caBundle ' +
      'of the APIService if that has the annotation coder.com/inject-ca=true.',
  },
  'external-metrics-key-file': {
    type: 'string',
    env: 'CODER_OPERATOR_EXTERNAL_METRICS_KEY_FILE',
    description: 'Key of that certificate, as PEM.',
  },
  verbose: { type: 'bool', short: 'v', env: 'CODER_OPERATOR_VERBOSE', description: 'Log debug lines.' },
  ...logFlags('CODER_OPERATOR'),
} as const;

const help =
  'Reconciles the custom resources of a Kubernetes cluster, such as CoderControlPlane and CoderProvisioner. If ' +
  'several operators run in one namespace, only one is active.';

const examples = [
  { does: 'Try the operator from your machine', run: 'coder operator start --kubeconfig ~/.kube/config' },
];

function addressOf(flag: string, text: string, example: string): { host: string; port: number } | undefined {
  if (text === '') return undefined;
  const [, host, port] = /^(.+):(\d{1,5})$/.exec(text) ?? [];
  if (!host || Number(port) > 65_535)
    throw new AppError('invalid', `Invalid --${flag} "${text}": use HOST:PORT, such as ${example}.`);
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) };
}

export default command({ flags, help, examples }, async (ctx, { flags: given }) => {
  const pollMs = given['poll-interval'];
  if (pollMs <= 0) throw new AppError('invalid', '--poll-interval must be greater than 0');
  const scalerAt = addressOf('keda-address', given['keda-address'] ?? '', '0.0.0.0:9666');
  const metricsAt = addressOf('external-metrics-address', given['external-metrics-address'] ?? '', '0.0.0.0:6443');
  const { 'external-metrics-cert-file': cert, 'external-metrics-key-file': key } = given;
  if (Boolean(cert) !== Boolean(key))
    throw new AppError('invalid', 'Set both --external-metrics-cert-file and --external-metrics-key-file, or neither.');
  const log = loggerOf(given);
  const { inClusterConnection, kubeconfigConnection, startOperator } = await import('@ropewalk/operator');
  const connection = given.kubeconfig
    ? await kubeconfigConnection(expandHome(given.kubeconfig, ctx.env), given.context)
    : inClusterConnection(ctx.env);
  const operator = startOperator({
    connection,
    watchNamespace: given.namespace || undefined,
    pollMs,
    log,
    defaultImage: given['default-image'],
    scalerAt,
    externalMetrics: metricsAt && { ...metricsAt, ...(cert && key ? { files: { cert, key } } : {}) },
  });
  onEverySignal(['SIGTERM', 'SIGHUP', 'SIGINT'], () => {
    log.info('exiting');
    void operator.stop();
  });
  releaseMemoryWhenIdle();
  await operator.done;
  return 0;
});
