package condor_q

// holdReason gives HTCondor's label of a HoldReasonCode (the manual's table of hold reason codes, NumHoldsByReason).
func holdReason(code int64) string {
	reasons := [...]string{
		0: "Unspecified", 1: "UserRequest", 2: "GlobusGramError", 3: "JobPolicy", 4: "CorruptedCredential", 5: "JobPolicyUndefined",
		6: "FailedToCreateProcess", 7: "UnableToOpenOutput", 8: "UnableToOpenInput", 9: "UnableToOpenOutputStream",
		10: "UnableToOpenInputStream", 11: "InvalidTransferAck", 12: "TransferOutputError", 13: "TransferInputError",
		14: "IwdError", 15: "SubmittedOnHold", 16: "SpoolingInput", 17: "JobShadowMismatch", 18: "InvalidTransferGoAhead",
		19: "HookPrepareJobFailure", 20: "MissedDeferredExecutionTime", 21: "StartdHeldJob", 22: "UnableToInitUserLog",
		23: "FailedToAccessUserAccount", 24: "NoCompatibleShadow", 25: "InvalidCronSettings", 26: "SystemPolicy",
		27: "SystemPolicyUndefined", 32: "MaxTransferInputSizeExceeded", 33: "MaxTransferOutputSizeExceeded",
		34: "JobOutOfResources", 35: "InvalidDockerImage", 36: "FailedToCheckpoint", 37: "EC2UserError", 38: "EC2InternalError",
		39: "EC2AdminError", 40: "EC2ConnectionProblem", 41: "EC2ServerError", 42: "EC2InstancePotentiallyLost",
		43: "PreScriptFailed", 44: "PostScriptFailed", 45: "SingularityTestFailed", 46: "JobDurationExceeded",
		47: "JobExecuteExceeded", 48: "HookShadowPrepareJobFailure",
	}
	if code < 0 || code >= int64(len(reasons)) || reasons[code] == "" {
		return "_unknown"
	}
	return reasons[code]
}
