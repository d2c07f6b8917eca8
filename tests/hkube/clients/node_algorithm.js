// An algorithm by HKube's Node.js wrapper: its input says what it does.

const { run } = require('@hkube/nodejs-wrapper');

let tasks = 0;
let stopAsked;

const actions = {
    give: (args, api, value) => value,
    tell: ({ jobId, taskId, nodeName, pipelineName, algorithmName, batchIndex }) => ({
        pid: process.pid, tasks, jobId, taskId, nodeName, pipelineName, algorithmName, batchIndex
    }),
    fail: (args, api, message) => {
        throw new Error(message);
    },
    crash: () => {
        process.kill(process.pid, 'SIGKILL');
        return new Promise(() => {});
    },
    leave: () => process.exit(0),
    make: (args, api, kind, size) => (kind === 'bytes' ? Buffer.alloc(size, Buffer.from([0, 255])) : 'x'.repeat(size)),
    drop: (args, api, value) => new Promise((resolve) => {
        api._wc.on('connection', () => resolve(value));
        api._wc._socket._socket.destroy();
    }),
    until_stop: () => new Promise((resolve) => {
        stopAsked = () => resolve('stopped by itself');
    }),
    hang: () => new Promise(() => {}),
    call: (args, api, algorithm, inputs) => api.startAlgorithm(algorithm, inputs),
    call_pipeline: (args, api, name, flowInput) => api.startStoredSubpipeline(name, flowInput)
};

run({
    start: (args, api) => {
        tasks += 1;
        const [action, ...rest] = args.input;
        return actions[action](args, api, ...rest);
    },
    stop: () => stopAsked && stopAsked()
});
