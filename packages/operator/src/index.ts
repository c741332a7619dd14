export { type Connection, inClusterConnection, kubeconfigConnection } from './kube/connection.ts';
export { type Operator, type OperatorOptions, startOperator } from './operator.ts';
